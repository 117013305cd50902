// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"bf0fd59af284f590\"",
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
        path: "/assets/index-C_LDxrwn.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"ef954891ed9bfd8c\"",
        plain: include_bytes!("assets/index-C_LDxrwn.js"),
        gzip: include_bytes!("assets/index-C_LDxrwn.js.gz"),
    },
    File {
        path: "/assets/index-DAaNVxfh.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"5518fc46a7d12538\"",
        plain: include_bytes!("assets/index-DAaNVxfh.css"),
        gzip: include_bytes!("assets/index-DAaNVxfh.css.gz"),
    },
]
