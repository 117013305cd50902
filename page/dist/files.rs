// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"1eaa5dd04da3cc7e\"",
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
        path: "/assets/index-Bjz3A5VJ.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"82acefe231f65a13\"",
        plain: include_bytes!("assets/index-Bjz3A5VJ.js"),
        gzip: include_bytes!("assets/index-Bjz3A5VJ.js.gz"),
    },
    File {
        path: "/assets/index-CA5fvTWT.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"f765a1e8ac35e40b\"",
        plain: include_bytes!("assets/index-CA5fvTWT.css"),
        gzip: include_bytes!("assets/index-CA5fvTWT.css.gz"),
    },
]
