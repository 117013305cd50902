// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"217a5b9ef1a181e0\"",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
    },
    File {
        path: "/assets/icon-G1K_hnQQ.svg",
        content_type: "image/svg+xml",
        etag: "W/\"5ec5b6f95bdc6bf1\"",
        plain: include_bytes!("assets/icon-G1K_hnQQ.svg"),
        gzip: include_bytes!("assets/icon-G1K_hnQQ.svg.gz"),
    },
    File {
        path: "/assets/index-Be_Wyju0.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"f2fca6950eb12d7a\"",
        plain: include_bytes!("assets/index-Be_Wyju0.js"),
        gzip: include_bytes!("assets/index-Be_Wyju0.js.gz"),
    },
    File {
        path: "/assets/index-K8tA0IpF.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"2b2f8e4cf66c5e88\"",
        plain: include_bytes!("assets/index-K8tA0IpF.css"),
        gzip: include_bytes!("assets/index-K8tA0IpF.css.gz"),
    },
]
