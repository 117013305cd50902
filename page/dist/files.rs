// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"288eea762c19c7c7\"",
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
        path: "/assets/index-Bo27u69E.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"fdfa5d125ec8aadf\"",
        plain: include_bytes!("assets/index-Bo27u69E.js"),
        gzip: include_bytes!("assets/index-Bo27u69E.js.gz"),
    },
    File {
        path: "/assets/index-DAaNVxfh.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"5518fc46a7d12538\"",
        plain: include_bytes!("assets/index-DAaNVxfh.css"),
        gzip: include_bytes!("assets/index-DAaNVxfh.css.gz"),
    },
]
