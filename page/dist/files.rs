// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"d6e75e3335db31af\"",
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
        path: "/assets/index-0cS4CqLa.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"0d77ff1397319532\"",
        plain: include_bytes!("assets/index-0cS4CqLa.js"),
        gzip: include_bytes!("assets/index-0cS4CqLa.js.gz"),
    },
    File {
        path: "/assets/index-Dqp565Tm.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"c8294de1caa37c77\"",
        plain: include_bytes!("assets/index-Dqp565Tm.css"),
        gzip: include_bytes!("assets/index-Dqp565Tm.css.gz"),
    },
]
