// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"3dd1c5c1b2bf16cd\"",
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
        path: "/assets/index-C0kFvT2i.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"e213779ca763996b\"",
        plain: include_bytes!("assets/index-C0kFvT2i.js"),
        gzip: include_bytes!("assets/index-C0kFvT2i.js.gz"),
    },
]
