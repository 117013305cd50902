import { defineConfig } from "vite";

export default defineConfig({
  // The page's own addresses: the broker serves `/` and `/assets/NAME`.
  base: "/",
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    target: "es2022",
    // The Content-Security-Policy allows no `data:` addresses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
