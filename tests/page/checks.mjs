// How a test of the page is run, and what it may say and draw.
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { PATIENCE_MS } from "./browser.mjs";

export const { values: options } = parseArgs({ options: { shots: { type: "string" }, docs: { type: "boolean" }, dist: { type: "boolean" } } });
const docs = fileURLToPath(new URL("../../docs/page/", import.meta.url));
for (const folder of [options.shots, options.docs && `${docs}why`]) if (folder) mkdirSync(folder, { recursive: true });

export const total = { passed: 0, failed: 0 };

/** Runs one test. Returned lines are what is wrong. */
export async function check(name, test) {
  const started = performance.now();
  let wrong;
  try {
    wrong = (await test()) ?? [];
  } catch (error) {
    wrong = [error.message.split("\n").slice(0, 6).join("\n    ")];
  }
  wrong.length === 0 ? (total.passed += 1) : (total.failed += 1);
  console.log(`${wrong.length === 0 ? "ok  " : "FAIL"} ${name} (${((performance.now() - started) / 1000).toFixed(1)} s)`);
  for (const line of wrong) console.log(`    ${line}`);
}

export function expect(condition, otherwise) {
  return condition ? [] : [otherwise];
}

export function includes(text, ...parts) {
  return parts.filter((part) => !text.includes(part)).map((part) => `'${part}' is missing in: ${text.slice(0, 300).replaceAll("\n", " / ")}`);
}

export async function until(what, test) {
  const end = Date.now() + PATIENCE_MS;
  while (Date.now() < end) {
    if (await test()) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`${what}: not within ${PATIENCE_MS} ms`);
}

export async function shot(tab, name) {
  if (options.shots) await tab.page.screenshot({ path: `${options.shots}/${name}.png` });
}

/** A picture of docs/page.md or docs/why.md: of the window, or of one element. */
export async function picture(tab, name, element = tab.page) {
  if (!options.docs) return;
  // The browser itself writes WebP, which takes a third of PNG.
  const png = (await element.screenshot()).toString("base64");
  const canvas = await tab.context.browser().newPage();
  const webp = await canvas.evaluate(async (data) => {
    const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
    const surface = new OffscreenCanvas(bitmap.width, bitmap.height);
    surface.getContext("2d").drawImage(bitmap, 0, 0);
    const blob = await surface.convertToBlob({ type: "image/webp", quality: 0.75 });
    return Array.from(new Uint8Array(await blob.arrayBuffer()));
  }, png);
  await canvas.close();
  writeFileSync(`${docs}${name}.webp`, Buffer.from(webp));
}

/** What is true of every view: no errors, axe finds nothing, the keyboard reaches everything, nothing is too wide. */
export async function sound(tab, { keyboard = true } = {}) {
  const wrong = [...(await tab.axe()), ...(await tab.tooWide())];
  if (keyboard) wrong.push(...(await tab.unreachable()));
  return [...wrong, ...(await tab.faults())];
}

/** The address of a view. */
export const hash = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;
