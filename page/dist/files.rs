// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"b33c661dfb0a0d49\"",
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
        path: "/assets/index-BymTatRP.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"c5a914e6cda8d412\"",
        plain: include_bytes!("assets/index-BymTatRP.js"),
        gzip: include_bytes!("assets/index-BymTatRP.js.gz"),
    },
    File {
        path: "/assets/index-Dqp565Tm.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"c8294de1caa37c77\"",
        plain: include_bytes!("assets/index-Dqp565Tm.css"),
        gzip: include_bytes!("assets/index-Dqp565Tm.css.gz"),
    },
]
