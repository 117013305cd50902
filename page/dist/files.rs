// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"6accb4f83372b934\"",
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
        path: "/assets/index-nlw7yQA-.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"d9071b921032484b\"",
        plain: include_bytes!("assets/index-nlw7yQA-.css"),
        gzip: include_bytes!("assets/index-nlw7yQA-.css.gz"),
    },
    File {
        path: "/assets/index-vm3myTlz.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"61791b6b06b90028\"",
        plain: include_bytes!("assets/index-vm3myTlz.js"),
        gzip: include_bytes!("assets/index-vm3myTlz.js.gz"),
    },
]
