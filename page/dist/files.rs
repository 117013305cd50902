// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"1a1e5adff9f0ee76\"",
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
        path: "/assets/index-B9Q_ZNXQ.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"ae61e97b6fc78029\"",
        plain: include_bytes!("assets/index-B9Q_ZNXQ.js"),
        gzip: include_bytes!("assets/index-B9Q_ZNXQ.js.gz"),
    },
    File {
        path: "/assets/index-K8tA0IpF.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"2b2f8e4cf66c5e88\"",
        plain: include_bytes!("assets/index-K8tA0IpF.css"),
        gzip: include_bytes!("assets/index-K8tA0IpF.css.gz"),
    },
]
