// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"14d512cbcf4a7031\"",
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
        path: "/assets/index-DtRWNy4v.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"ef3ddb4534dc7e96\"",
        plain: include_bytes!("assets/index-DtRWNy4v.js"),
        gzip: include_bytes!("assets/index-DtRWNy4v.js.gz"),
    },
    File {
        path: "/assets/index-nlw7yQA-.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"d9071b921032484b\"",
        plain: include_bytes!("assets/index-nlw7yQA-.css"),
        gzip: include_bytes!("assets/index-nlw7yQA-.css.gz"),
    },
]
