// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"12ca7b37fa09e7e2\"",
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
        path: "/assets/index-CX5Ym5-V.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"869344aba4eb2d47\"",
        plain: include_bytes!("assets/index-CX5Ym5-V.css"),
        gzip: include_bytes!("assets/index-CX5Ym5-V.css.gz"),
    },
    File {
        path: "/assets/index-DJ42tpC0.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"ef3ddb4534dc7e96\"",
        plain: include_bytes!("assets/index-DJ42tpC0.js"),
        gzip: include_bytes!("assets/index-DJ42tpC0.js.gz"),
    },
]
