// The browser, and what is true of the page in every view.
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../page/", import.meta.url));
const need = createRequire(`${root}package.json`);
const { chromium } = need("playwright-core");
const axeSource = readFileSync(need.resolve("axe-core/axe.min.js"), "utf8");

/** A guard against waiting for ever, not a measure: a machine that runs other tests is slow. */
export const PATIENCE_MS = 60_000;

/** Starts the browser. `more` are further options of it. */
export async function launch(...more) {
  // The sandbox of Chromium does not work for root, as whom tests run in containers. A page that is served from page/dist counts as
  // one of the internet, which could not ask the identity provider of the test on this machine.
  const args = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-features=LocalNetworkAccessChecks", ...more];
  return chromium.launch({ executablePath: process.env.CHROMIUM, args });
}

/** A tab, with everything that a page must not do: each is a line in `wrong`. */
export class Tab {
  static async open(browser, url, { width = 1280, height = 860, scheme = "light", touch = false, fromDist = false } = {}) {
    // axe needs to be injected, which the page's own policy forbids to scripts, but not to the browser's driver.
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, hasTouch: touch, acceptDownloads: true });
    const tab = new Tab();
    Object.assign(tab, { context, url, wrong: [], asked: [], refused: [], expectRefusals: false });
    await context.addInitScript(() => {
      globalThis.violations = [];
      document.addEventListener("securitypolicyviolation", (event) => globalThis.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
    });
    if (fromDist) await serveDist(context);
    tab.page = await context.newPage();
    tab.page.setDefaultTimeout(PATIENCE_MS);
    tab.page.on("console", (message) => {
      // The browser itself writes such a line for each answer that is an error. Those are counted as answers.
      if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) tab.wrong.push(`console: ${message.text()}`);
    });
    tab.page.on("pageerror", (error) => tab.wrong.push(`error: ${error.message}`));
    tab.page.on("dialog", (dialog) => {
      tab.wrong.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    tab.page.on("request", (request) => {
      tab.asked.push(`${request.method()} ${request.url().replace(url, "")}`);
      if (!request.url().startsWith(url) && !request.url().startsWith("blob:")) tab.wrong.push(`loads from elsewhere: ${request.url()}`);
    });
    tab.page.on("response", (response) => {
      if (response.status() >= 400) tab.refused.push(`${response.status()} ${response.request().method()} ${response.url().replace(url, "")}`);
    });
    return tab;
  }

  /** Goes to a place within the page, and waits until nothing is on its way. */
  async go(hash) {
    await this.page.evaluate((to) => new Promise((done) => {
      const from = location.hash;
      addEventListener("hashchange", () => setTimeout(done), { once: true });
      location.hash = to;
      if (location.hash === from) done();
    }), hash);
    await this.page.waitForTimeout(40);
    await this.settled();
  }

  async settled() {
    await this.page.waitForFunction(() => !document.querySelector(".loading"), undefined, { timeout: PATIENCE_MS });
    await this.page.waitForTimeout(60);
  }

  async login(user, password) {
    await this.page.goto(this.url);
    await this.page.getByLabel("User").fill(user);
    await this.page.getByLabel("Password").fill(password);
    await this.page.getByRole("button", { name: "Log in" }).click();
    await this.page.locator("nav.side").waitFor();
  }

  text(selector = "main") {
    return this.page.locator(selector).innerText();
  }

  /** Returns what was wrong since the last call. */
  async faults() {
    const violations = await this.page.evaluate(() => globalThis.violations.splice(0)).catch(() => []);
    const found = [...this.wrong.splice(0), ...violations.map((one) => `policy: ${one}`)];
    const refused = this.refused.splice(0);
    return this.expectRefusals ? found : [...found, ...refused.map((one) => `answer: ${one}`)];
  }

  /** Returns the violations of accessibility rules that axe finds (WCAG 2.2 A and AA, and its best practices). */
  async axe() {
    await this.page.evaluate(axeSource);
    const violations = await this.page.evaluate(async () => {
      const result = await globalThis.axe.run(document, { resultTypes: ["violations"] });
      return result.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
    });
    return violations;
  }

  /** Presses Tab until the focus is back at the start. Returns the controls that it never reached or did not show. */
  async unreachable() {
    return this.page.evaluate(() => {
      const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")];
      const seen = all.filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.disabled && !one.closest("details:not([open]) > :not(summary)"));
      globalThis.controls = new Set(seen);
      document.activeElement?.blur();
      return seen.length;
    }).then(async (count) => {
      for (let i = 0; i < count + 3; i++) {
        await this.page.keyboard.press("Tab");
        const [left, faint] = await this.page.evaluate(() => {
          const now = document.activeElement;
          globalThis.controls.delete(now);
          const hidden = now && now !== document.body && getComputedStyle(now).outlineStyle === "none";
          return [globalThis.controls.size, hidden ? now.outerHTML.slice(0, 120) : ""];
        });
        if (faint) return [`the focus is not visible: ${faint}`];
        if (left === 0) return [];
      }
      return this.page.evaluate(() => [...globalThis.controls].map((one) => `not reached: ${one.outerHTML.slice(0, 120)}`));
    });
  }

  /** Returns what is wider than the window, which would have to be scrolled sideways. */
  async tooWide() {
    return this.page.evaluate(() => {
      const extra = document.documentElement.scrollWidth - document.documentElement.clientWidth;
      if (extra <= 0) return [];
      const wide = [...document.querySelectorAll("#page *")].filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".scroll, .side"));
      return [`${extra} px too wide: ${wide.slice(0, 3).map((one) => one.outerHTML.slice(0, 100)).join(" | ")}`];
    });
  }

  async close() {
    await this.context.close();
  }
}

/** Serves the page from page/dist. */
async function serveDist(context) {
  const types = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css", svg: "image/svg+xml" };
  const answer = (route, file) => route.fulfill({ body: readFileSync(`${root}dist/${file}`), contentType: types[file.split(".").pop()] });
  await context.route((url) => url.pathname === "/", (route) => answer(route, "index.html"));
  const files = readdirSync(`${root}dist/assets`);
  await context.route((url) => url.pathname.startsWith("/assets/"), (route) => {
    const name = new URL(route.request().url()).pathname.split("/").pop();
    return files.includes(name) ? answer(route, `assets/${name}`) : route.abort();
  });
}
