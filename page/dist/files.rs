// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"11cff304fc918b16\"",
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
        path: "/assets/index-Ck5ZLJYC.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"1328a493e06ce156\"",
        plain: include_bytes!("assets/index-Ck5ZLJYC.js"),
        gzip: include_bytes!("assets/index-Ck5ZLJYC.js.gz"),
    },
    File {
        path: "/assets/index-Dqp565Tm.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"c8294de1caa37c77\"",
        plain: include_bytes!("assets/index-Dqp565Tm.css"),
        gzip: include_bytes!("assets/index-Dqp565Tm.css.gz"),
    },
]
