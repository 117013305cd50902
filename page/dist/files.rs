// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"00196d549e45f3a5\"",
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
        path: "/assets/index-7CJwZEKL.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"bdc4c1886b497477\"",
        plain: include_bytes!("assets/index-7CJwZEKL.js"),
        gzip: include_bytes!("assets/index-7CJwZEKL.js.gz"),
    },
    File {
        path: "/assets/index-BYzqZN1U.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"a3d98b3728740f2c\"",
        plain: include_bytes!("assets/index-BYzqZN1U.css"),
        gzip: include_bytes!("assets/index-BYzqZN1U.css.gz"),
    },
]
