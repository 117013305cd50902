// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"b988d5905c920752\"",
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
        path: "/assets/index-D6pxHFj8.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"b1c0c6b7015a6185\"",
        plain: include_bytes!("assets/index-D6pxHFj8.css"),
        gzip: include_bytes!("assets/index-D6pxHFj8.css.gz"),
    },
    File {
        path: "/assets/index-DofB7LMD.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"e3ac05ec324c241c\"",
        plain: include_bytes!("assets/index-DofB7LMD.js"),
        gzip: include_bytes!("assets/index-DofB7LMD.js.gz"),
    },
]
