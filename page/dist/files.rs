// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"4b84a560e52ecc3f\"",
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
        path: "/assets/index-CLiFWag-.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"d72bd7f5a7657c66\"",
        plain: include_bytes!("assets/index-CLiFWag-.js"),
        gzip: include_bytes!("assets/index-CLiFWag-.js.gz"),
    },
    File {
        path: "/assets/index-TK-mH4Vp.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"fe42653b100fb19a\"",
        plain: include_bytes!("assets/index-TK-mH4Vp.css"),
        gzip: include_bytes!("assets/index-TK-mH4Vp.css.gz"),
    },
]
