// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"209a5f4af079717f\"",
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
        path: "/assets/index-Db0g-cxr.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"3499cbfa00cd23e5\"",
        plain: include_bytes!("assets/index-Db0g-cxr.js"),
        gzip: include_bytes!("assets/index-Db0g-cxr.js.gz"),
    },
    File {
        path: "/assets/index-Dqt6OOPH.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"ab1e9a4d23b3ab21\"",
        plain: include_bytes!("assets/index-Dqt6OOPH.css"),
        gzip: include_bytes!("assets/index-Dqt6OOPH.css.gz"),
    },
]
