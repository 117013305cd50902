// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"d7cefdae2f47ca42\"",
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
        path: "/assets/index-B1yhTSGM.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"fa84e493bdcfd69e\"",
        plain: include_bytes!("assets/index-B1yhTSGM.css"),
        gzip: include_bytes!("assets/index-B1yhTSGM.css.gz"),
    },
    File {
        path: "/assets/index-DxxEes7Y.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"58b139c9557a0d53\"",
        plain: include_bytes!("assets/index-DxxEes7Y.js"),
        gzip: include_bytes!("assets/index-DxxEes7Y.js.gz"),
    },
]
