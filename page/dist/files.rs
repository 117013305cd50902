// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"e8668f3b280870d6\"",
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
        path: "/assets/index-DvxW1iZb.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"68c8cf8bdcf0a4bf\"",
        plain: include_bytes!("assets/index-DvxW1iZb.js"),
        gzip: include_bytes!("assets/index-DvxW1iZb.js.gz"),
    },
    File {
        path: "/assets/index-TK-mH4Vp.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"fe42653b100fb19a\"",
        plain: include_bytes!("assets/index-TK-mH4Vp.css"),
        gzip: include_bytes!("assets/index-TK-mH4Vp.css.gz"),
    },
]
