// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"9aa04c5b9ff8353e\"",
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
        path: "/assets/index-CDn52Dkw.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"53a88b212079d45f\"",
        plain: include_bytes!("assets/index-CDn52Dkw.js"),
        gzip: include_bytes!("assets/index-CDn52Dkw.js.gz"),
    },
    File {
        path: "/assets/index-DuDHPAAF.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"e8d027ba1a985be4\"",
        plain: include_bytes!("assets/index-DuDHPAAF.css"),
        gzip: include_bytes!("assets/index-DuDHPAAF.css.gz"),
    },
]
