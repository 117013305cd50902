// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"03376a3125a49ffc\"",
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
        path: "/assets/index-CFK3zmyA.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"09a79320c4d7d054\"",
        plain: include_bytes!("assets/index-CFK3zmyA.css"),
        gzip: include_bytes!("assets/index-CFK3zmyA.css.gz"),
    },
    File {
        path: "/assets/index-DOPQ1B8l.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"8f89fe2a70bac1ef\"",
        plain: include_bytes!("assets/index-DOPQ1B8l.js"),
        gzip: include_bytes!("assets/index-DOPQ1B8l.js.gz"),
    },
]
