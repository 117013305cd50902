// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"4cdb7ef93afa3b30\"",
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
        path: "/assets/index-CewKJooX.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"aae9f2ffad0bfc2e\"",
        plain: include_bytes!("assets/index-CewKJooX.js"),
        gzip: include_bytes!("assets/index-CewKJooX.js.gz"),
    },
    File {
        path: "/assets/index-K6zDPZpj.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"77cdbdab9ef1029d\"",
        plain: include_bytes!("assets/index-K6zDPZpj.css"),
        gzip: include_bytes!("assets/index-K6zDPZpj.css.gz"),
    },
]
