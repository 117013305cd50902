// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"1f7ef7171269788c\"",
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
        path: "/assets/index-CHrgRcZf.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"81721be77a30b049\"",
        plain: include_bytes!("assets/index-CHrgRcZf.js"),
        gzip: include_bytes!("assets/index-CHrgRcZf.js.gz"),
    },
    File {
        path: "/assets/index-DGjgqNVv.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"1239f9075e8f3b24\"",
        plain: include_bytes!("assets/index-DGjgqNVv.css"),
        gzip: include_bytes!("assets/index-DGjgqNVv.css.gz"),
    },
]
