// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"9b63110c20c701bd\"",
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
        path: "/assets/index-BeuRzamy.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"85f1e7fdc3c2d717\"",
        plain: include_bytes!("assets/index-BeuRzamy.css"),
        gzip: include_bytes!("assets/index-BeuRzamy.css.gz"),
    },
    File {
        path: "/assets/index-BzqjEyZ-.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"a5687b30c805d78d\"",
        plain: include_bytes!("assets/index-BzqjEyZ-.js"),
        gzip: include_bytes!("assets/index-BzqjEyZ-.js.gz"),
    },
]
