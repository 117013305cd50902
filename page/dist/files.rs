// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"ae05f4c4d050d13a\"",
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
        path: "/assets/index-C0GzOiDb.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"a973f4499fdb59c1\"",
        plain: include_bytes!("assets/index-C0GzOiDb.js"),
        gzip: include_bytes!("assets/index-C0GzOiDb.js.gz"),
    },
    File {
        path: "/assets/index-K6zDPZpj.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"77cdbdab9ef1029d\"",
        plain: include_bytes!("assets/index-K6zDPZpj.css"),
        gzip: include_bytes!("assets/index-K6zDPZpj.css.gz"),
    },
]
