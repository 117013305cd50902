// Pages of other web sites must not use the login that the browser remembers, and the broker's own page may.
import { createServer } from "node:http";
import { Broker } from "./broker.mjs";
import { check, expect } from "./checks.mjs";

/** A page of another web site. */
export class OtherSite {
  static async start() {
    const site = new OtherSite();
    site.server = createServer((_, response) => {
      response.writeHead(200, { "content-type": "text/html" });
      response.end("<!doctype html><title>another site</title>");
    });
    await new Promise((done) => site.server.listen(0, "127.0.0.1", done));
    site.port = site.server.address().port;
    return site;
  }

  async stop() {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }
}

/** Every route that is not a GET: its method, and a path of it. */
export async function writingRoutes(broker) {
  const { paths } = await broker.api("GET", "/api/openapi.json");
  const routes = Object.entries(paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => [method.toUpperCase(), path.replaceAll(/[{}]/g, "")]));
  return routes.filter(([method]) => ["PUT", "POST", "DELETE"].includes(method));
}

/** What a form sends as JSON that makes an administrator: the name of its only field, and its value. */
const FIELD = ['{"users":[{"name":"evil","password":"evil","tags":"administrator","note":"', '"}]}'];

/** The user whose login the browser remembers. */
const USER = { username: "ops", password: "a password" };

/** Opens a tab whose browser answers each question for a login. */
async function remembering(browser) {
  const context = await browser.newContext({ httpCredentials: USER, ignoreHTTPSErrors: true });
  const page = await context.newPage();
  page.statuses = [];
  page.on("response", (response) => page.statuses.push([response.request().method(), response.url(), response.status()]));
  return page;
}

/** Sends each request as the page in a tab does that wants to do harm. Returns those that were not refused. */
async function attack(page, target, routes) {
  const wrong = [];
  for (const [method, path] of routes) {
    page.statuses.length = 0;
    await page.evaluate(
      async ([method, url]) => {
        const attempt = (options) => fetch(url, { method, credentials: "include", ...options }).catch(() => {});
        await attempt({ headers: { "content-type": "application/json" }, body: "{}" });
        // A POST of these types is sent without a question. So is one without a type.
        if (method !== "POST") return;
        for (const type of ["text/plain", "application/x-www-form-urlencoded"]) await attempt({ mode: "no-cors", headers: { "content-type": type }, body: "{}" });
        await attempt({ mode: "no-cors", body: new Blob(["{}"]) });
        await attempt({ mode: "no-cors", body: new FormData() });
      },
      [method, target + path],
    );
    const answers = page.statuses.filter(([sent]) => sent === method).map(([, , status]) => status);
    const all = method === "POST" ? 4 : 0;
    if (answers.length < all || answers.some((status) => status !== 403)) wrong.push(`${method} ${path} of another site: ${answers}`);
  }
  page.statuses.length = 0;
  const [name, value] = FIELD;
  const sent = page.waitForResponse((response) => response.request().method() === "POST");
  await page.evaluate(
    ([action, name, value]) => {
      const form = Object.assign(document.createElement("form"), { action, method: "post", enctype: "text/plain" });
      form.append(Object.assign(document.createElement("input"), { name, value }));
      document.body.append(form);
      form.submit();
    },
    [`${target}/api/definitions`, name, value],
  );
  const status = (await sent).status();
  return [...wrong, ...expect(status === 403, `the form of another site: ${status}`)];
}

/** Sends each request as the broker's own page does, but without a login, so that nothing happens. Returns what was not as expected. */
async function own(page, routes, passes) {
  const statuses = await page.evaluate(async (all) => {
    const found = [];
    for (const [method, path] of all) found.push((await fetch(path, { method, credentials: "omit", headers: { "content-type": "application/json" }, body: "{}" })).status);
    return found;
  }, routes);
  const expected = passes ? 401 : 403;
  return routes.map(([method, path], i) => (statuses[i] === expected ? "" : `${method} ${path} of the own page: ${statuses[i]} instead of ${expected}`)).filter(Boolean);
}

/** Tests one address of a broker: `url` is what the browser is told, and `evil` the address of the page of another site. */
export async function twoOrigins(browser, broker, url, evil, passes = true) {
  const routes = await writingRoutes(broker);
  await broker.api("PUT", `/api/users/${USER.username}`, { password: USER.password, tags: "administrator" });
  const page = await remembering(browser);
  const wrong = expect(routes.length > 40, `only ${routes.length} routes`);
  try {
    await page.goto(`${url}/`);
    wrong.push(...(await own(page, routes, passes)));
    // A page of another site can send its user to the broker, with the login.
    await page.goto(evil);
    const seen = page.waitForResponse((response) => response.url().endsWith("/api/whoami") && response.status() !== 401);
    await page.evaluate((to) => void (location.href = to), `${url}/api/whoami`);
    const status = (await seen).status();
    await page.waitForURL(`${url}/api/whoami`);
    wrong.push(...expect(status === 200, `the browser does not log in: ${status}`));
    await page.goto(evil);
    wrong.push(...(await attack(page, url, routes)));
  } finally {
    await page.context().close();
  }
  const users = (await broker.api("GET", "/api/users")).map((user) => user.name);
  return [...wrong, ...expect(users.join() === `guest,${USER.username}`, `the users are ${users}`)];
}

/** The broker without a proxy, on this machine. */
export async function origins(browser) {
  const broker = await Broker.start(process.env.SLUICE_BIN, { password_hashing: "sha256" });
  const site = await OtherSite.start();
  try {
    // Another port of the same host is the same site, but another origin.
    for (const host of ["localhost", "127.0.0.1"]) {
      await check(`a page of http://${host}:PORT cannot use the login of another origin`, () => twoOrigins(browser, broker, broker.url, `http://${host}:${site.port}/`));
    }
  } finally {
    await site.stop();
    await broker.stop();
  }
}
