// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"163c3014eb6a0bd2\"",
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
        path: "/assets/index-B0VSnn-O.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"99c67d6f91d4ebc3\"",
        plain: include_bytes!("assets/index-B0VSnn-O.css"),
        gzip: include_bytes!("assets/index-B0VSnn-O.css.gz"),
    },
    File {
        path: "/assets/index-DA4JI2_5.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"f66189ea6cd69424\"",
        plain: include_bytes!("assets/index-DA4JI2_5.js"),
        gzip: include_bytes!("assets/index-DA4JI2_5.js.gz"),
    },
]
