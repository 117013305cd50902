// Written by page/scripts/finish.mjs.
&[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"5c1f352e7a3d51ea\"",
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
        path: "/assets/index-137F59vU.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"7d536f3ae6a55006\"",
        plain: include_bytes!("assets/index-137F59vU.js"),
        gzip: include_bytes!("assets/index-137F59vU.js.gz"),
    },
    File {
        path: "/assets/index-YQgJBbdn.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"1061f80615e34e5b\"",
        plain: include_bytes!("assets/index-YQgJBbdn.css"),
        gzip: include_bytes!("assets/index-YQgJBbdn.css.gz"),
    },
]
