// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"316ed49396960f30\"",
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
        path: "/assets/index-CMaEX__J.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"44bf0b810e3076bf\"",
        plain: include_bytes!("assets/index-CMaEX__J.js"),
        gzip: include_bytes!("assets/index-CMaEX__J.js.gz"),
    },
    File {
        path: "/assets/index-Corh2TCy.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"1281c5ddbfcca169\"",
        plain: include_bytes!("assets/index-Corh2TCy.css"),
        gzip: include_bytes!("assets/index-Corh2TCy.css.gz"),
    },
]
