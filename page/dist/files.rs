// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"8ba484f9405828c8\"",
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
        path: "/assets/index-Bp639Dti.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"2dcc494f3e6d286a\"",
        plain: include_bytes!("assets/index-Bp639Dti.js"),
        gzip: include_bytes!("assets/index-Bp639Dti.js.gz"),
    },
    File {
        path: "/assets/index-CFd3QtHf.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"720881b3e3875828\"",
        plain: include_bytes!("assets/index-CFd3QtHf.css"),
        gzip: include_bytes!("assets/index-CFd3QtHf.css.gz"),
    },
]
