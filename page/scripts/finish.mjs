// Completes what vite built in a folder: adds a compressed copy of each file, and the table by which the broker embeds them.
//
//   node scripts/finish.mjs FOLDER
//
// The compressor is written in JavaScript, so that every version of Node writes the same bytes.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { gzipSync } from "fflate";

/** The largest size of all files together, compressed, in bytes. The page must load at once over a slow line. */
const BYTES_MAX = 150 * 1024;

const folder = process.argv[2];
if (folder === undefined) throw new Error("the folder that vite wrote is missing: node scripts/finish.mjs FOLDER");
const dist = pathToFileURL(`${resolve(folder)}/`);
const types = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", svg: "image/svg+xml" };
const paths = ["index.html", ...readdirSync(new URL("assets/", dist)).sort().map((name) => `assets/${name}`)];

let total = 0;
const rows = paths.map((path) => {
  const plain = readFileSync(new URL(path, dist));
  const type = types[path.split(".").pop()];
  if (!type) throw new Error(`${path}: no content type is known for this file`);
  const packed = gzipSync(plain, { level: 9, mtime: 0 });
  writeFileSync(new URL(`${path}.gz`, dist), packed);
  total += packed.length;
  // Weak: the same tag stands for the plain and the compressed file.
  const tag = createHash("sha256").update(plain).digest("hex").slice(0, 16);
  return `    File {
        path: "/${path === "index.html" ? "" : path}",
        content_type: "${type}",
        etag: "W/\\"${tag}\\"",
        plain: include_bytes!("${path}"),
        gzip: include_bytes!("${path}.gz"),
    },
`;
});
if (total > BYTES_MAX) throw new Error(`the page has ${total} bytes compressed, more than ${BYTES_MAX}`);
writeFileSync(new URL("files.rs", dist), `// Written by page/scripts/finish.mjs.\n&[\n${rows.join("")}]\n`);
console.log(`${paths.length} files, ${total} bytes compressed`);
