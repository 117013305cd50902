// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"ad5576c57c0f34aa\"",
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
        path: "/assets/index-D2Qp3hpB.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"c40bb214c510b4fa\"",
        plain: include_bytes!("assets/index-D2Qp3hpB.js"),
        gzip: include_bytes!("assets/index-D2Qp3hpB.js.gz"),
    },
    File {
        path: "/assets/index-Dqt6OOPH.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"ab1e9a4d23b3ab21\"",
        plain: include_bytes!("assets/index-Dqt6OOPH.css"),
        gzip: include_bytes!("assets/index-Dqt6OOPH.css.gz"),
    },
]
