// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"3cb8d75183f4a077\"",
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
        path: "/assets/index-B7WXSueB.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"0417374afe7a27dd\"",
        plain: include_bytes!("assets/index-B7WXSueB.css"),
        gzip: include_bytes!("assets/index-B7WXSueB.css.gz"),
    },
    File {
        path: "/assets/index-BPWSSsVi.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"88e576edf458211e\"",
        plain: include_bytes!("assets/index-BPWSSsVi.js"),
        gzip: include_bytes!("assets/index-BPWSSsVi.js.gz"),
    },
]
