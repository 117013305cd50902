// The test of the web page. See tests/page/run.
import { Broker, HOSTILE, fill, messages, traffic } from "./broker.mjs";
import { Tab, launch } from "./browser.mjs";
import { charts } from "./charts.mjs";
import { check, expect, hash, includes, options, picture, shot, sound, total, until } from "./checks.mjs";
import { fields } from "./fields.mjs";
import { finding, offers } from "./finding.mjs";
import { forms } from "./forms.mjs";
import { withProvider } from "./oauth.mjs";
import { made } from "./made.mjs";
import { origins } from "./origins.mjs";
import { phones } from "./phone.mjs";
import { queues } from "./queues.mjs";
import { said } from "./said.mjs";
import { touch } from "./touch.mjs";
import { troubles } from "./troubles.mjs";
import { causes } from "./why.mjs";
import { hostile } from "./wire.mjs";

const broker = await Broker.start(process.env.SLUICE_BIN);
const browser = await launch();
const open = (more) => Tab.open(browser, broker.url, { fromDist: options.dist, ...more });
const tab = await open();
/** The addresses of pages of objects that clients have made: a queue, a quorum queue, a stream, an exchange, a user, a virtual host, and why a queue does not move. */
const KEPT = [...["invoices", "payments", "audit"].map((name) => hash("queues", "/", name)), hash("exchanges", "/", "shop"), hash("admin", "users", "viewer"), hash("admin", "vhosts", "/"), `#/why?${new URLSearchParams({ kind: "queue", vhost: "/", name: "invoices" })}`];
/** The addresses of all views, as the page's own navigation has them, so that a new view is tested, too. */
let VIEWS = [];
try {
  await login();
  VIEWS = await views();
  await nothing();
  await fill(broker);
  await traffic(broker);
  await messages(broker);
  await lists();
  await queues(broker, tab);
  await clients();
  await charts(broker, tab, open);
  await routing();
  await forms(broker, tab);
  await made(broker, tab);
  await fields(broker, tab);
  await said(broker, tab, open);
  await finding(broker, tab);
  await troubles(broker, tab, open);
  await admin();
  for (const view of [hash("queues", "/", "invoices"), hash("exchanges", "/", "shop"), "#/exchanges", ...VIEWS.filter((one) => one.startsWith("#/admin") && !one.endsWith("/features"))]) {
    await check(`${view}: every window can be opened and closed`, () => windows(view));
  }
  await pausing();
  await refused();
  await phone();
  await phones(broker, tab, open);
  await touch(open, [...VIEWS, ...KEPT, ...(await passing())]);
  await gone();
  await many();
  await eachOfMany();
  await logout();
  await origins(browser);
  await causes(browser);
  await provider();
} catch (error) {
  await check("what stands between the checks", () => Promise.reject(error));
} finally {
  await browser.close();
  await broker.stop();
}
console.log(`page: ${total.passed} passed, ${total.failed} failed`);
process.exit(total.failed === 0 ? 0 : 1);

async function login() {
  await check("a wrong password is refused with a reason, by keyboard alone", async () => {
    await tab.page.goto(broker.url);
    await tab.page.getByLabel("User").focus();
    await tab.page.keyboard.type("guest");
    await tab.page.keyboard.press("Tab");
    await tab.page.keyboard.type("wrong");
    await tab.page.keyboard.press("Enter");
    await tab.page.getByText("does not know this user").waitFor();
    tab.refused.length = 0;
    await shot(tab, "login");
    return sound(tab);
  });
  await check("a login opens the overview, and no address shows the password", async () => {
    await tab.page.getByLabel("Password").fill("guest");
    await tab.page.keyboard.press("Enter");
    await tab.page.getByRole("heading", { name: "Overview" }).waitFor();
    const addresses = [tab.page.url(), ...tab.asked].filter((one) => one.includes("guest:") || one.includes("Z3Vlc3Q"));
    return [...expect(addresses.length === 0, `an address has the login: ${addresses[0]}`), ...(await tab.faults())];
  });
}

/** Reads the navigation of the page. */
async function views() {
  const links = (selector) => tab.page.locator(`${selector} a`).evaluateAll((all) => all.map((one) => one.getAttribute("href")));
  await tab.go("#/admin");
  // This address leads to the first view of the area. A busy browser does so later than `go` waits.
  await tab.page.locator('nav[aria-label="Admin"] a').first().waitFor();
  const tabs = await links('nav[aria-label="Admin"]');
  const found = [...(await links("nav.side")).filter((one) => one !== "#/admin"), ...tabs];
  await check("the navigation has all views", async () => expect(tabs.length >= 8 && new Set(found).size === found.length && found.length - tabs.length >= 8, `the views are ${found}`));
  return found;
}

/** The addresses of pages of objects that end with their clients: a connection of each protocol, a session, a channel, and why a link does not move. */
async function passing() {
  const rows = async (list) => broker.api("GET", `/api/${list}`);
  const consumer = (session) => session.outgoing_links.find((link) => link.queue_name);
  await until("clients of both protocols", async () => {
    const [lost] = broker.lost();
    if (lost) throw new Error(lost);
    return (await rows("sessions")).some(consumer) && (await rows("channels")).length > 0;
  });
  const [connections, [channel]] = [await rows("connections"), await rows("channels")];
  const session = (await rows("sessions")).find(consumer);
  const of = (protocol) => connections.find((row) => row.protocol === protocol)?.name;
  const link = { kind: "link", vhost: "/", name: consumer(session).link_name, connection: session.connection_details.name };
  return [...["AMQP 1-0", "AMQP 0-9-1"].map((protocol) => hash("connections", of(protocol))), hash("sessions", session.name), hash("channels", channel.name), `#/why?${new URLSearchParams(link)}`];
}

/** Returns a view's address as a part of the name of a picture. */
function named(view) {
  return decodeURIComponent(view).replaceAll(/[^\w.]+/g, "-").slice(0, 80);
}

async function nothing() {
  for (const view of [...VIEWS, hash("exchanges", "/", "amq.topic")]) {
    await check(`${view} with nothing in the broker`, async () => {
      await tab.go(view);
      await shot(tab, `empty${named(view)}`);
      return sound(tab, { keyboard: false });
    });
  }
  await check("nothing is wrong in a broker with nothing", async () => {
    await tab.go("#/");
    await tab.page.getByText("Nothing is wrong.").waitFor();
    return [...includes(await tab.text(".well"), "Looked at 0 queues and 0 connections."), ...(await tab.faults())];
  });
  await check("a queue is created in place", async () => {
    await tab.go("#/queues");
    const empty = await tab.text();
    await tab.page.getByRole("button", { name: "Create a queue" }).click();
    const dialog = tab.page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("first queue");
    await dialog.getByLabel("Arguments").fill("x-max-length=7");
    await shot(tab, "create-queue");
    const command = await dialog.locator(".command code").innerText();
    const wrong = await tab.axe();
    await dialog.getByRole("button", { name: "Create", exact: true }).click();
    await tab.page.locator("main table").getByRole("link", { name: "first queue", exact: true }).waitFor();
    const made = await broker.api("GET", "/api/queues/%2F/first%20queue");
    await broker.line(command);
    return [...wrong, ...includes(empty, "There are no queues."), ...includes(command, "sluice declare queue --type classic --argument x-max-length=7 'first queue'"), ...expect(made.arguments["x-max-length"] === 7, `made: ${JSON.stringify(made)}`), ...(await tab.faults())];
  });
  await check("what the broker refuses is shown with its reason", async () => {
    await tab.page.getByRole("button", { name: "Create a queue" }).click();
    const dialog = tab.page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("first queue");
    await dialog.getByLabel("Type").selectOption("quorum");
    await dialog.getByRole("button", { name: "Create", exact: true }).click();
    const reason = await dialog.locator(".problem").innerText();
    await tab.page.keyboard.press("Escape");
    tab.refused.length = 0;
    return [...includes(reason, "inequivalent arg 'x-queue-type'"), ...expect((await tab.page.getByRole("dialog").count()) === 0, "Escape does not close the window")];
  });
  await check("a queue is deleted after a question that names it", async () => {
    await tab.go(hash("queues", "/", "first queue"));
    await tab.page.getByRole("button", { name: "Delete" }).click();
    const question = await tab.page.getByRole("dialog").innerText();
    await tab.page.getByRole("button", { name: "Delete the queue" }).click();
    await tab.page.getByText("There are no queues.").waitFor();
    return [...includes(question, "first queue", "0 messages"), ...(await tab.faults()).filter((one) => !one.startsWith("answer: 404 GET"))];
  });
}

async function lists() {
  await check("lists come in pages, and are never loaded as a whole", async () => {
    tab.asked.length = 0;
    await tab.go("#/");
    await tab.go("#/queues");
    const rows = await tab.page.locator("main tbody tr").count();
    await tab.page.getByRole("button", { name: "Next" }).click();
    await tab.page.getByText("Page 2 of").waitFor();
    const whole = tab.asked.filter((one) => /^GET \/api\/(queues|connections|sessions|channels|exchanges)(\/[^/?]+)?(\?|$)/.test(one) && !/[?&]page_size=\d+/.test(one));
    return [...expect(rows === 50, `${rows} rows`), ...expect(whole.length === 0, `asked for a whole list: ${whole[0]}`), ...(await tab.faults())];
  });
  await check("sort, filter and columns are in the address, and survive a reload", async () => {
    await tab.go("#/queues");
    await tab.page.getByLabel("Filter by a part of the name").fill("load.1");
    await tab.page.getByText("20 of").waitFor();
    await tab.page.getByRole("button", { name: "Name" }).click();
    await until("the order", async () => (await tab.page.locator("main tbody tr").first().innerText()).includes("load.119"));
    await tab.page.getByText("Columns").first().click();
    await tab.page.getByLabel("Total").check();
    await shot(tab, "columns");
    await tab.page.reload();
    await tab.page.getByText("20 of").waitFor();
    await tab.settled();
    const head = await tab.page.locator("main thead").innerText();
    const first = await tab.page.locator("main tbody tr").first().innerText();
    await tab.go("#/");
    await tab.page.getByRole("button", { name: "1 day" }).click();
    await tab.page.reload();
    await tab.page.getByRole("button", { name: "1 day", pressed: true }).waitFor();
    for (const view of [hash("queues", "/", "flow-1"), hash("exchanges", "/", "amq.topic")]) {
      await tab.go(view);
      await tab.page.getByRole("button", { name: "10 min", pressed: true }).waitFor();
      tab.asked.length = 0;
      await tab.page.getByRole("button", { name: "8 h" }).click();
      await until("the samples of 8 hours", async () => tab.asked.some((one) => one.includes("msg_rates_age=28800&msg_rates_incr=600")));
      await tab.page.reload();
      await tab.page.getByRole("button", { name: "8 h", pressed: true }).waitFor();
      await tab.settled();
    }
    return [...includes(head, "Total"), ...includes(first, "load.119"), ...(await tab.faults())];
  });
  await check("hostile names are text in every list", async () => {
    const wrong = [];
    for (const view of ["#/queues?name=alert", "#/queues?name=gnp", "#/queues?name=bell", "#/exchanges?name=x%20", "#/admin/users", "#/admin/policies", "#/admin/vhosts"]) {
      await tab.go(view);
      wrong.push(...(await tab.faults()));
      const made = await tab.page.evaluate(() => document.querySelectorAll("main script, main img").length);
      if (made) wrong.push(`${view}: a name became an element`);
    }
    await tab.go("#/queues?name=bell");
    return [...wrong, ...includes(await tab.text(), "bell\\u{7}\\u{1b}[31mred\\ttab")];
  });
  await check("lists of a virtual host with a hostile name", async () => {
    const wrong = [];
    const choice = tab.page.locator("header.top select").first();
    for (const name of HOSTILE) {
      await choice.selectOption(name);
      for (const view of ["#/queues", "#/connections", "#/sessions", "#/channels", "#/consumers", "#/exchanges"]) await tab.go(view);
      wrong.push(...includes(await tab.text(), "amq.topic"));
    }
    await choice.selectOption("");
    return [...wrong, ...(await tab.faults())];
  });
  await check("the page of each queue with a hostile name opens by its link", async () => {
    const wrong = [];
    for (const name of HOSTILE) {
      await tab.go(hash("queues", "/", name));
      await tab.page.getByText("queue empty").first().waitFor();
      await tab.go(`#/why?${new URLSearchParams({ kind: "queue", vhost: "/", name })}`);
      await tab.page.getByText("queue empty").first().waitFor();
      await tab.page.getByText("The numbers behind this").click();
      const said = await broker.line(await tab.page.locator(".command code").innerText());
      await tab.go(hash("exchanges", "/", `x ${name}`));
      await tab.page.locator(`a[href="${hash("queues", "/", name)}"]`).first().waitFor();
      wrong.push(...includes(said, "queue_empty"), ...(await tab.faults()));
    }
    await tab.go("#/queues?name=alert");
    await tab.page.getByRole("link", { name: "<script>alert(1)</script>", exact: true }).click();
    await tab.page.getByRole("heading", { name: "<script>alert(1)</script>" }).waitFor();
    await shot(tab, "hostile-queue");
    return [...wrong, ...(await tab.faults())];
  });
}

async function clients() {
  await check("connections show their rates", async () => {
    await tab.go("#/connections");
    await until("rates", async () => /KiB\/s|[1-9]\d* B\/s/.test(await tab.text()));
    await shot(tab, "connections");
    await picture(tab, "connections");
    return [...includes(await tab.text(), "AMQP 1.0", "AMQP 0.9.1"), ...(await sound(tab))];
  });
  await check("a connection shows its sessions, windows and credit, and why nothing moves", async () => {
    const rows = await broker.api("GET", "/api/connections");
    const busy = rows.find((row) => row.sessions?.some((session) => session.outgoing_links.some((link) => link.queue_name?.startsWith("flow"))));
    await tab.go(hash("connections", busy.name));
    await tab.page.getByText("Window of the client").first().waitFor();
    await shot(tab, "connection");
    await picture(tab, "connection");
    await tab.page.getByRole("button", { name: "Trace", exact: true }).click();
    const traced = await tab.page.getByRole("dialog").locator(".command code").innerText();
    await tab.page.keyboard.press("Escape");
    await tab.page.locator("main tr", { hasText: "flow" }).locator("a.why").click();
    await tab.page.getByText("The numbers behind this").click();
    await broker.line(await tab.page.locator(".command code").innerText());
    await shot(tab, "why");
    await picture(tab, "why");
    return [...includes(await tab.text(), "sluice explain link", "--connection"), ...includes(traced, "sluice trace connection", busy.name), ...(await sound(tab))];
  });
  await check("the sessions of all connections are listed, as many as the tile says, and one shows its links", async () => {
    await tab.go("#/");
    const tiles = Object.fromEntries(await tab.page.locator("a.tile").evaluateAll((all) => all.map((one) => [one.querySelector(".label").innerText.toLowerCase(), one.querySelector(".value").innerText])));
    const [sessions, channels] = [await broker.api("GET", "/api/sessions"), await broker.api("GET", "/api/channels")];
    await tab.page.locator("a.tile", { hasText: "Sessions" }).click();
    await tab.page.getByRole("heading", { name: "Sessions" }).waitFor();
    await tab.settled();
    const listed = await tab.page.locator("main tbody tr").count();
    await shot(tab, "sessions");
    await picture(tab, "sessions");
    const wrong = await sound(tab);
    const busy = sessions.find((row) => row.outgoing_links.some((link) => link.queue_name?.startsWith("flow")));
    await tab.page.getByRole("link", { name: busy.name, exact: true }).click();
    await tab.page.getByText("Window of the client").waitFor();
    await tab.page.getByRole("region", { name: "Consumers of the session, table" }).getByText("flow").waitFor();
    await shot(tab, "session");
    wrong.push(...(await sound(tab)));
    await tab.go(hash("sessions", busy.name.replace(/\(\d+\)$/, "(77)")));
    await tab.page.getByText("This session has ended.").waitFor();
    return [
      ...wrong,
      ...expect(sessions.length > 0 && channels.length > 0, "there are no sessions or no channels"),
      ...expect(tiles.sessions === String(sessions.length) && listed === sessions.length, `the tile says ${tiles.sessions}, the list has ${listed}, the broker ${sessions.length}`),
      ...expect(tiles.channels === String(channels.length), `the tile says ${tiles.channels} channels, the broker has ${channels.length}`),
      ...(await tab.faults()),
    ];
  });
  await check("a channel shows its consumers", async () => {
    await tab.go("#/channels");
    await picture(tab, "channels");
    const rows = await broker.api("GET", "/api/channels");
    await tab.go(hash("channels", rows.find((row) => row.consumer_count > 0).name));
    await tab.page.getByText("Prefetch or credit").waitFor();
    await shot(tab, "channel");
    await picture(tab, "channel");
    return sound(tab);
  });
  await check("the consumers of all protocols are listed", async () => {
    await tab.go("#/consumers");
    await shot(tab, "consumers");
    await picture(tab, "consumers");
    return [...includes(await tab.text(), "the active one", "orders"), ...(await sound(tab, { keyboard: false }))];
  });
  await check("consumers are found by their queue, tag, client or user, and a bookmark keeps it", async () => {
    await tab.go("#/consumers");
    const all = await broker.api("GET", "/api/consumers");
    const filter = tab.page.getByLabel("Filter by a part of the consumer, queue, client or user");
    const { channel_details: at, consumer_tag: tag } = all[0];
    const found = {
      ORDERS: (row) => row.queue.name.includes("orders"),
      [tag]: (row) => row.consumer_tag.includes(tag) || row.queue.name.includes(tag),
      [at.connection_name]: (row) => row.channel_details.connection_name === at.connection_name,
      guest: () => true,
      "no such text": () => false,
    };
    const wrong = [];
    for (const [text, matches] of Object.entries(found)) {
      const expected = all.filter(matches).length;
      await filter.fill(text);
      await tab.page.getByText(`${expected} of ${all.length}`, { exact: true }).waitFor();
      wrong.push(...expect((await tab.page.locator("main tbody tr").count()) === expected, `${text}: other rows are shown`));
    }
    wrong.push(...includes(await tab.text(), "No consumer, queue, client or user contains “no such text”."));
    await filter.fill("orders");
    await tab.page.getByRole("button", { name: "Prefetch or credit" }).click();
    await tab.page.getByText("Columns").first().click();
    await tab.page.getByLabel("Exclusive").check();
    await tab.page.reload();
    await tab.page.getByText(`2 of ${all.length}`, { exact: true }).waitFor();
    await tab.settled();
    const head = await tab.page.locator("main thead").innerText();
    const order = await tab.page.locator("th[aria-sort]").innerText();
    await shot(tab, "consumers-found");
    return [...wrong, ...includes(head, "Exclusive"), ...includes(order, "Prefetch"), ...(await sound(tab))];
  });
  await check("what clients call themselves is text in every view", async () => {
    const found = await hostile(broker.amqp);
    const wrong = [];
    try {
      await until("the connections", async () => (await broker.api("GET", "/api/connections")).filter((row) => row.client_properties?.note !== undefined || HOSTILE.includes(row.container_id)).length === 2 * HOSTILE.length);
      const rows = await broker.api("GET", "/api/connections");
      const mine = rows.filter((row) => HOSTILE.includes(row.container_id) || HOSTILE.includes(row.client_properties?.note));
      const channels = (await broker.api("GET", "/api/channels")).filter((row) => mine.some((one) => one.name === row.connection_details.name));
      const sessions = (await broker.api("GET", "/api/sessions")).filter((row) => mine.some((one) => one.name === row.connection_details.name));
      const pages = [["connections", mine], ["channels", channels], ["sessions", sessions]].flatMap(([kind, rows]) => rows.map((row) => hash(kind, row.name)));
      for (const view of [...VIEWS, ...pages]) {
        await tab.go(view);
        wrong.push(...(await sound(tab, { keyboard: false })).map((one) => `${view}: ${one}`));
        const marked = await tab.page.locator("main :is(script, img)").count();
        wrong.push(...expect(marked === 0, `${view}: a name became markup`));
      }
      await tab.go("#/connections");
      wrong.push(...includes(await tab.text(), HOSTILE[0], "bell\\u{7}"));
      const ten = mine.find((row) => row.container_id === HOSTILE[0]);
      await tab.go(hash("connections", ten.name));
      wrong.push(...includes(await tab.text(), HOSTILE[0], HOSTILE[1]));
      await tab.go("#/consumers");
      await shot(tab, "hostile-consumers");
      wrong.push(...includes(await tab.text(), HOSTILE[0], HOSTILE[1]));
    } finally {
      found.forEach((client) => client.close());
    }
    return [...wrong, ...(await tab.faults())];
  });
  await check("a connection is closed with a reason", async () => {
    const before = await broker.api("GET", "/api/consumers/%2F");
    const waiting = before.find((row) => row.activity_status === "waiting");
    await tab.go(hash("connections", waiting.channel_details.connection_name));
    await tab.page.getByRole("button", { name: "Close", exact: true }).click();
    await tab.page.getByLabel("Reason").fill("the test is over");
    await tab.page.getByRole("button", { name: "Close the connection" }).click();
    await tab.page.getByRole("heading", { name: "Connections" }).waitFor();
    await until("the end", async () => !(await broker.api("GET", "/api/connections")).some((row) => row.name === waiting.channel_details.connection_name));
    await until("the reason at the client", async () => broker.forget("the test is over"));
    return (await tab.faults()).filter((one) => !one.startsWith("answer: 404 GET"));
  });
}

async function routing() {
  await check("exchanges and their bindings are listed", async () => {
    await tab.go("#/exchanges");
    await shot(tab, "exchanges");
    await picture(tab, "exchanges");
    const wrong = await sound(tab);
    await tab.go(hash("exchanges", "/", "shop"));
    await tab.page.getByText("order.paid").waitFor();
    await shot(tab, "exchange");
    await picture(tab, "exchange");
    return [...wrong, ...(await sound(tab))];
  });
  await check("an exchange is bound and unbound in place", async () => {
    await tab.page.getByRole("button", { name: "Bind", exact: true }).click();
    const dialog = tab.page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("load.001");
    await dialog.getByLabel("Binding key").fill("a key/with~signs");
    await dialog.getByRole("button", { name: "Bind", exact: true }).click();
    const row = tab.page.locator("tr", { hasText: "a key/with~signs" });
    await row.waitFor();
    await row.getByRole("button", { name: "Unbind" }).click();
    const line = await tab.page.getByRole("dialog").locator(".command code").innerText();
    await tab.page.getByRole("dialog").getByRole("button", { name: "Unbind" }).click();
    await row.waitFor({ state: "detached" });
    await broker.line(line.replace("delete binding", "declare binding"));
    await row.waitFor();
    await broker.line(line);
    await row.waitFor({ state: "detached" });
    return tab.faults();
  });
  await check("the routing try-out says what the broker then does", async () => {
    const wrong = [];
    const ready = async () => Object.fromEntries((await broker.api("GET", "/api/queues/%2F?disable_stats=true&enable_queue_totals=true")).map((row) => [row.name, row.messages]));
    for (const [key, country] of [["order.paid", "DE"], ["order.paid", "FR"], ["order.new", "DE"], ["refund", "DE"]]) {
      await tab.go(`#/routing?${new URLSearchParams({ vhost: "/", exchange: "shop", key, headers: `country=${country}` })}`);
      await tab.page.reload();
      await tab.page.locator("ol.steps").waitFor();
      const links = await tab.page.locator("ol.steps li", { hasText: "queue" }).locator("a:last-of-type").allInnerTexts();
      const before = await ready();
      await broker.command("send", "--property", `country=${country}`, `/exchanges/shop/${key}`, "try");
      const after = await ready();
      // The queue "orders" has a consumer, which takes the message at once.
      const got = Object.keys(after).filter((name) => after[name] > before[name] && !name.startsWith("flow") && !name.startsWith("old"));
      const said = [...new Set(links)].filter((name) => name !== "orders").sort();
      if (said.join() !== got.sort().join()) wrong.push(`${key} ${country}: the page says ${said}, the broker ${got}`);
      if (key.startsWith("order") !== links.includes("orders")) wrong.push(`${key}: orders in ${links}`);
    }
    await tab.go(`#/routing?${new URLSearchParams({ vhost: "/", exchange: "shop", key: "order.paid", headers: "country=DE" })}`);
    await tab.page.reload();
    await tab.page.locator("ol.steps").waitFor();
    await shot(tab, "routing");
    await picture(tab, "routing");
    wrong.push(...(await sound(tab)));
    await tab.page.getByLabel("Routing key").fill("refund");
    await tab.page.getByRole("button", { name: "Try" }).click();
    await tab.page.locator("ol.steps").getByText("this is the alternate exchange").waitFor();
    return [...wrong, ...expect(tab.page.url().includes("refund"), "the address does not have the key"), ...(await tab.faults())];
  });
}

async function admin() {
  for (const view of VIEWS.filter((one) => one.startsWith("#/admin"))) {
    await check(`${view} with everything in it`, async () => {
      await tab.go(view);
      await shot(tab, view.slice(2).replace("/", "-"));
      await picture(tab, view.slice("#/admin/".length));
      return sound(tab);
    });
  }
  await check("a policy shows the queues that have it", async () => {
    await tab.go("#/admin/policies");
    await tab.page.locator("tr", { hasText: "short" }).getByRole("button", { name: "Queues" }).click();
    await tab.page.getByRole("button", { name: "Find them" }).click();
    await tab.page.getByText("10 of").waitFor();
    const names = await tab.page.locator("ul.names").innerText();
    await tab.page.keyboard.press("Escape");
    return [...includes(names, "load.000", "load.009"), ...(await tab.faults())];
  });
  await check("a policy is added whose definition is typed key by key", async () => {
    await tab.go("#/admin/policies");
    await tab.page.getByRole("button", { name: "Add a policy" }).first().click();
    const dialog = tab.page.getByRole("dialog");
    await dialog.getByLabel("Name", { exact: true }).fill("typed");
    await dialog.getByLabel("Names that match").fill("^typed");
    await dialog.getByLabel("Definition").pressSequentially("max-length=5\noverflow");
    const lines = await dialog.locator(".command").count();
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    const reason = await dialog.locator(".problem").innerText();
    await dialog.getByLabel("Definition").pressSequentially("=reject-publish");
    const line = await dialog.locator(".command code").innerText();
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    await tab.page.locator("tr", { hasText: "^typed" }).waitFor();
    const get = async () => JSON.stringify((await broker.api("GET", "/api/policies/%2F/typed")).definition);
    const made = await get();
    await broker.api("DELETE", "/api/policies/%2F/typed");
    await broker.line(line);
    const same = await get();
    await broker.api("DELETE", "/api/policies/%2F/typed");
    const wanted = '{"max-length":5,"overflow":"reject-publish"}';
    return [...expect(lines === 0, "a half typed line has a command"), ...includes(reason, "'overflow' is not name=value"), ...expect(made === wanted && same === wanted, `made: ${made}, by the command: ${same}`), ...(await tab.faults())];
  });
  await check("a user is added, edited without a new password, and deleted", async () => {
    await tab.go("#/admin/users");
    await tab.page.getByRole("button", { name: "Add a user" }).click();
    const dialog = tab.page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("maria");
    await dialog.getByLabel("Password").fill("secret word");
    await dialog.getByRole("button", { name: "Add" }).click();
    const row = tab.page.getByRole("region", { name: "Users, table" }).locator("tr", { hasText: "maria" });
    await row.getByRole("button", { name: "Edit" }).click();
    await dialog.getByLabel("Tags").fill("monitoring");
    await dialog.getByRole("button", { name: "Save" }).click();
    await row.getByRole("cell", { name: "monitoring", exact: true }).waitFor();
    const who = await broker.api("GET", "/api/whoami", undefined, "maria:secret word");
    await row.getByRole("button", { name: "Delete" }).click();
    await tab.page.getByRole("button", { name: "Delete the user" }).click();
    await row.waitFor({ state: "detached" });
    return [...expect(who.tags.includes("monitoring"), `tags: ${who.tags}`), ...(await tab.faults())];
  });
  await check("a virtual host is edited in place", async () => {
    await broker.api("PUT", "/api/vhosts/edited", { description: "old", tags: "a,b", default_queue_type: "classic" });
    await tab.go("#/admin/vhosts");
    const row = tab.page.getByRole("region", { name: "Virtual hosts, table", exact: true }).locator("tr", { hasText: "edited" });
    await row.getByRole("button", { name: "Edit" }).click();
    const dialog = tab.page.getByRole("dialog");
    const before = [await dialog.getByLabel("Description").inputValue(), await dialog.getByLabel("Tags").inputValue(), await dialog.getByLabel("Default queue type").inputValue()].join();
    await dialog.getByLabel("Description").fill("new words");
    await dialog.getByLabel("Tags").fill("");
    await dialog.getByLabel("Default queue type").selectOption("quorum");
    const line = await dialog.locator(".command code").innerText();
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "detached" });
    await row.getByText("new words").waitFor();
    const get = async () => {
      const made = await broker.api("GET", "/api/vhosts/edited");
      return JSON.stringify([made.description, made.tags, made.default_queue_type]);
    };
    const made = await get();
    await broker.api("PUT", "/api/vhosts/edited", { description: "old", tags: "a,b", default_queue_type: "classic" });
    await broker.line(line);
    const same = await get();
    await broker.api("DELETE", "/api/vhosts/edited");
    return [...expect(before === "old,a,b,classic", `the form has ${before}`), ...expect(made === '["new words",[],"quorum"]' && same === made, `made: ${made}, by the command: ${same}`), ...(await tab.faults())];
  });
  await check("permissions are edited in place", async () => {
    await tab.go("#/admin/users");
    const row = tab.page.getByRole("region", { name: "Permissions, table", exact: true }).locator("tr", { hasText: "viewer" });
    await row.getByRole("button", { name: "Edit" }).click();
    const dialog = tab.page.getByRole("dialog");
    const before = [await dialog.getByLabel("Write").inputValue(), await dialog.getByLabel("Read").inputValue()].join();
    await dialog.getByLabel("Write").fill("^never$");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "detached" });
    await row.getByText("^never$").waitFor();
    const { configure, write, read } = await broker.api("GET", "/api/permissions/%2F/viewer");
    await broker.api("PUT", "/api/permissions/%2F/viewer", { configure: "", write: "", read: "^orders$" });
    const topic = tab.page.getByRole("region", { name: "Topic permissions, table", exact: true }).locator("tr", { hasText: "amq.topic" });
    await topic.getByRole("button", { name: "Edit" }).click();
    const keys = await dialog.getByLabel("Publish with keys").inputValue();
    await tab.page.keyboard.press("Escape");
    return [...expect(before === ",^orders$" && keys === "^a", `the forms have ${before} and ${keys}`), ...expect([configure, write, read].join() === ",^never$,^orders$", `it is ${[configure, write, read]}`), ...(await tab.faults())];
  });
  await check("parameters are set, edited and deleted, with the commands that do the same", async () => {
    await tab.go("#/admin/parameters");
    await tab.page.getByRole("button", { name: "Set a parameter", exact: true }).click();
    const dialog = tab.page.getByRole("dialog");
    await dialog.getByLabel("Component").fill("<b>tool</b>");
    await dialog.getByLabel("Name", { exact: true }).fill("a/name");
    await dialog.getByLabel("Value").fill('{"size": 7');
    const lines = await dialog.locator(".command").count();
    await dialog.getByRole("button", { name: "Set", exact: true }).click();
    const reason = await dialog.locator(".problem").innerText();
    await dialog.getByLabel("Value").fill('{"size": 7}');
    const line = await dialog.locator(".command code").innerText();
    await dialog.getByRole("button", { name: "Set", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    const row = tab.page.locator("tr", { hasText: "a/name" });
    await row.getByText('{"size":7}').waitFor();
    await shot(tab, "parameters");
    await row.getByRole("button", { name: "Edit" }).click();
    await dialog.getByLabel("Value").fill("8");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "detached" });
    await row.getByText("8", { exact: true }).waitFor();
    await row.getByRole("button", { name: "Delete" }).click();
    const clear = await dialog.locator(".command code").innerText();
    await dialog.getByRole("button", { name: "Delete the parameter" }).click();
    await row.waitFor({ state: "detached" });
    await broker.line(line);
    await row.getByText('{"size":7}').waitFor();
    await broker.line(clear);
    await row.waitFor({ state: "detached" });
    await tab.page.getByRole("button", { name: "Set a parameter of the cluster" }).click();
    await dialog.getByLabel("Name", { exact: true }).fill("colour");
    await dialog.getByLabel("Value").fill('"red"');
    await dialog.getByRole("button", { name: "Set", exact: true }).click();
    await tab.page.locator("tr", { hasText: "colour" }).waitFor();
    const { value } = await broker.api("GET", "/api/global-parameters/colour");
    await broker.api("DELETE", "/api/global-parameters/colour");
    tab.refused.length = 0;
    return [...expect(lines === 0, "a half typed value has a command"), ...includes(reason, "is not JSON"), ...expect(value === "red", `the value is ${value}`), ...(await tab.faults())];
  });
  await check("the cluster gets another name, and shows its nodes", async () => {
    const { name: before } = await broker.api("GET", "/api/cluster-name");
    await tab.go("#/admin/nodes");
    await tab.page.getByRole("button", { name: "Rename" }).click();
    const dialog = tab.page.getByRole("dialog");
    const shown = await dialog.getByLabel("Name").inputValue();
    await dialog.getByLabel("Name").fill("the <b>new</b> name");
    const line = await dialog.locator(".command code").innerText();
    await dialog.getByRole("button", { name: "Rename" }).click();
    await dialog.waitFor({ state: "detached" });
    await tab.page.getByText("the <b>new</b> name").waitFor();
    await broker.line(line.replace("new", "other"));
    const { name: after } = await broker.api("GET", "/api/cluster-name");
    await broker.api("PUT", "/api/cluster-name", { name: before });
    const [node] = await broker.api("GET", "/api/nodes");
    const nodes = await tab.text('[aria-label="Nodes, table"]');
    const shards = await tab.text('[aria-label="Shards, table"]');
    return [...expect(shown === before, `the form has ${shown}`), ...expect(after === "the <b>other</b> name", `the name is ${after}`), ...includes(nodes, node.name, "running"), ...includes(shards, "has time"), ...(await tab.faults())];
  });
  await check("the list of queues can show the members of groups", async () => {
    const [node] = await broker.api("GET", "/api/nodes");
    await tab.go("#/queues?name=pay&cols=name,members");
    const row = await tab.page.locator("main tbody tr", { hasText: "payments" }).innerText();
    return [...includes(row, node.name), ...(await tab.faults())];
  });
  await check("definitions are exported as a file, without the users unless wanted", async () => {
    await tab.go("#/admin/definitions");
    await tab.page.getByRole("button", { name: "Export" }).click();
    const [download] = await Promise.all([tab.page.waitForEvent("download"), tab.page.getByRole("dialog").getByRole("button", { name: "Export" }).click()]);
    const text = await new Response(await download.createReadStream()).text();
    await tab.page.keyboard.press("Escape");
    const parsed = JSON.parse(text);
    return [...expect(parsed.queues.length > 100 && !("users" in parsed), `the file has ${Object.keys(parsed)}`), ...(await tab.faults())];
  });
  await check("definitions are imported with what has no effect, and what is wrong is named with its line", async () => {
    await tab.go("#/admin/definitions");
    tab.expectRefusals = true;
    await tab.page.getByRole("button", { name: "Import" }).click();
    const window_ = tab.page.getByRole("dialog");
    const text = '{"exchanges":[\n{"vhost":"/","name":"later","type":"x-delayed-message"}]}';
    await window_.locator("input[type=file]").setInputFiles({ name: "old.json", mimeType: "application/json", buffer: Buffer.from(text) });
    await window_.getByRole("button", { name: "Import" }).click();
    await window_.getByText("is unknown").waitFor();
    const refused = await window_.innerText();
    await window_.getByLabel("Leave out what this broker does not know").check();
    const command = await window_.innerText();
    await window_.getByRole("button", { name: "Import" }).click();
    await window_.getByText("is left out").waitFor();
    const done = await window_.innerText();
    await tab.page.keyboard.press("Escape");
    const faults = await tab.faults();
    tab.expectRefusals = false;
    return [...includes(refused, "line 2: exchange 'later'"), ...includes(command, "--skip-unknown"), ...includes(done, "in force", "exchange 'later' in vhost '/' is left out"), ...faults];
  });
}

/** Opens every window of a view once. Returns what is wrong with them. */
async function windows(view) {
  await tab.go(view);
  const wrong = [];
  const seen = new Set();
  const buttons = tab.page.locator("main button:not(.sort, .quiet, [aria-pressed], [type=submit])");
  for (let i = 0; i < (await buttons.count()); i++) {
    const label = await buttons.nth(i).innerText();
    if (seen.has(label) || ["First", "Previous", "Next", "Last"].includes(label)) continue;
    seen.add(label);
    await buttons.nth(i).click();
    await tab.page.getByRole("dialog").waitFor();
    wrong.push(...[...(await tab.axe()), ...(await tab.tooWide())].map((one) => `${label}: ${one}`));
    await tab.page.keyboard.press("Escape");
    await tab.page.getByRole("dialog").waitFor({ state: "detached" });
    const back = await buttons.nth(i).evaluate((button) => document.activeElement === button);
    if (!back) wrong.push(`${label}: the focus does not return to the button`);
  }
  return [...wrong, ...expect(seen.size > 0, "there are no windows"), ...(await tab.faults())];
}

async function pausing() {
  await check("a hidden tab asks for nothing, and goes on when it is shown", async () => {
    const hidden = await open();
    await hidden.page.clock.install();
    await hidden.login("guest", "guest");
    const show = (visible) =>
      hidden.page.evaluate((on) => {
        Object.defineProperty(document, "hidden", { configurable: true, get: () => !on });
        document.dispatchEvent(new Event("visibilitychange"));
      }, visible);
    await hidden.page.clock.runFor(10_000);
    const polled = hidden.asked.length;
    await hidden.page.waitForLoadState("networkidle");
    await show(false);
    const before = hidden.asked.length;
    await hidden.page.clock.runFor(600_000);
    const while_hidden = hidden.asked.length - before;
    await show(true);
    await until("a request", async () => hidden.asked.length > before + while_hidden);
    const wrong = await hidden.faults();
    await hidden.close();
    return [...wrong, ...expect(polled > 8, `only ${polled} requests before`), ...expect(while_hidden === 0, `${while_hidden} requests while hidden`)];
  });
}

async function refused() {
  const viewer = await open();
  viewer.expectRefusals = true;
  await viewer.login("viewer", "viewer");
  for (const view of [...VIEWS, ...KEPT, ...(await passing())]) {
    await check(`${view} as a user who may see little`, async () => {
      await viewer.go(view);
      await shot(viewer, `viewer${named(view)}`);
      return sound(viewer, { keyboard: false });
    });
  }
  await check("what is not permitted is named, with the broker's reason", async () => {
    await viewer.go("#/admin/users");
    const users = await viewer.text();
    await viewer.go(hash("queues", "/", "invoices"));
    await viewer.page.getByText("Not permitted").first().waitFor();
    return [...includes(users, "Not permitted", "This needs the tag administrator."), ...includes(await viewer.text(), "refused for user 'viewer'")];
  });
  await check("numbers of others are not permitted, and never 0 or none", async () => {
    await viewer.go("#/");
    const overview = await viewer.text();
    await viewer.go(hash("queues", "/", "orders"));
    const consumers = await viewer.text('section:has(> header > h2:text-is("Consumers"))');
    const shown = (await broker.api("GET", "/api/queues/%2F/orders")).consumers;
    await viewer.go("#/connections");
    return [
      ...includes(overview, "your own; others: not permitted", "not permitted (it needs the tag monitoring)", "Connections opened\nnot permitted"),
      ...expect(!overview.includes("There are no listeners"), "it says that there are no listeners"),
      ...includes(consumers, `${shown} consumer`, "of other users: not permitted"),
      ...expect(shown > 0 && !consumers.includes("No consumer is attached"), "it says that the queue has no consumer"),
      ...includes(await viewer.text(), "These are the connections of your own login.", "not permitted"),
      ...(await sound(viewer, { keyboard: false })),
    ];
  });
  await offers(viewer);
  await check("a trace that is not permitted leaves no queue behind", async () => {
    // The tag was taken away a moment ago, and the page does not know it yet.
    const whoami = (url) => url.pathname === "/api/whoami";
    await viewer.page.route(whoami, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), tags: ["administrator"] } });
    });
    await viewer.page.reload();
    await viewer.go(hash("queues", "/", "orders"));
    await viewer.page.getByRole("button", { name: "Trace", exact: true }).click();
    const dialog = viewer.page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Start" }).click();
    await dialog.getByText("This needs the tag administrator.").nth(1).waitFor();
    await viewer.page.unroute(whoami);
    const left = (await broker.api("GET", "/api/queues?name=trace-&page=1&page_size=10")).items;
    return [...expect(left.length === 0, `there is ${left[0]?.name}`), ...(await sound(viewer, { keyboard: false }))];
  });
  await viewer.close();
  await check("a user without a tag is not let in, and is told why", async () => {
    const nobody = await open();
    await nobody.page.goto(broker.url);
    await nobody.page.getByLabel("User").fill("nobody");
    await nobody.page.getByLabel("Password").fill("nobody");
    await nobody.page.getByRole("button", { name: "Log in" }).click();
    await nobody.page.getByText("This needs the tag management.").waitFor();
    await nobody.close();
  });
  await check("when the password changes, the page asks for the login again", async () => {
    const temporary = await open();
    temporary.expectRefusals = true;
    await temporary.login("temporary", "temporary");
    await temporary.page.locator("header.top select").nth(1).selectOption("2");
    await broker.api("PUT", "/api/users/temporary", { password: "other", tags: "administrator" });
    await temporary.page.getByText("does not accept this login any more").waitFor();
    const wrong = await temporary.faults();
    await temporary.close();
    return wrong;
  });
}

async function phone() {
  const small = await open({ width: 390, height: 844, scheme: "dark" });
  await small.login("guest", "guest");
  for (const view of [...VIEWS, ...KEPT, ...(await passing())]) {
    await check(`${view} on a phone, in the dark`, async () => {
      await small.go(view);
      await small.page.waitForTimeout(100);
      await shot(small, `phone${named(view)}`);
      if (view === "#/") await picture(small, "phone");
      return sound(small, { keyboard: false });
    });
  }
  await small.close();
  await check("the theme can be chosen", async () => {
    await tab.go("#/queues");
    await tab.page.getByLabel("Theme").selectOption("dark");
    const ground = await tab.page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await shot(tab, "queues-dark");
    await picture(tab, "dark");
    const wrong = await sound(tab, { keyboard: false });
    await tab.go(hash("queues", "/", "orders"));
    await tab.page.waitForTimeout(300);
    await shot(tab, "queue-dark");
    wrong.push(...(await sound(tab, { keyboard: false })));
    await tab.page.getByLabel("Theme").selectOption("auto");
    return [...wrong, ...expect(ground === "rgb(15, 20, 21)", `the ground is ${ground}`)];
  });
}

async function gone() {
  await check("when the broker is gone the page says so, keeps what it has, and comes back by itself", async () => {
    await tab.go("#/queues");
    tab.expectRefusals = true;
    await broker.down();
    await tab.page.getByText("The broker has not answered since").waitFor();
    const text = await tab.text();
    await shot(tab, "gone");
    const wrong = [...(await tab.axe()), ...includes(text, "load.000"), ...includes(await tab.text("header.top"), "No answer")];
    await broker.up();
    await tab.page.getByText("The broker has not answered since").waitFor({ state: "detached" });
    await tab.page.getByText("No alarms").waitFor();
    return [...wrong, ...(await tab.faults()).filter((one) => !one.includes("ERR_CONNECTION"))];
  });
  await traffic(broker);
  const ended = await passing();
  tab.expectRefusals = true;
  await broker.down();
  for (const view of [...VIEWS, ...KEPT, ...ended]) {
    await check(`${view} says that the broker is gone`, async () => {
      await tab.go(view);
      await tab.page.getByText("The broker has not answered since").waitFor();
      const wrong = includes(await tab.text("header.top"), "No answer");
      return [...wrong, ...(await tab.axe()), ...(await tab.faults()).filter((one) => !one.includes("ERR_CONNECTION"))];
    });
  }
  await broker.up();
  await tab.page.getByText("The broker has not answered since").waitFor({ state: "detached" });
  tab.refused.length = 0;
  for (const view of [...VIEWS, ...KEPT]) {
    await check(`${view} is itself when the broker is back`, async () => {
      await tab.go(view);
      const shown = await tab.page.locator("main .problem").allInnerTexts();
      return [...expect(shown.length === 0, `it shows ${shown[0]}`), ...(await tab.faults())];
    });
  }
  for (const view of ended) {
    await check(`${view} says that it has ended when the broker is back`, async () => {
      await tab.go(view);
      return [...includes(await tab.text(), "Not found"), ...(await sound(tab, { keyboard: false }))];
    });
  }
  await check("an alarm is shown in every view", async () => {
    await broker.down();
    await broker.up({ "disk_free_limit.absolute": "1000TB" });
    await tab.page.getByText("Alarm: disk").waitFor();
    await tab.page.getByText("The broker has not answered since").waitFor({ state: "detached" });
    await tab.go("#/admin/limits");
    await shot(tab, "alarm");
    const wrong = [...includes(await tab.text("header.top"), "Alarm: disk", "Publishing is stopped."), ...(await tab.axe())];
    await broker.down();
    await broker.up();
    await tab.page.getByText("No alarms").waitFor();
    await tab.faults();
    tab.expectRefusals = false;
    return wrong;
  });
}

async function many() {
  // The broker filters and sorts up to 100,000 queues; there are some others.
  const more = 99_800;
  await check("the list works with 100,000 queues", async () => {
    // Each request is one change, which must not keep the open view waiting for long on a slow machine.
    const parts = 20;
    for (let part = 0; part < parts; part++) {
      const queues = Array.from({ length: more / parts }, (_, i) => ({ vhost: "/", name: `many.${String((part * more) / parts + i).padStart(5, "0")}`, durable: true, auto_delete: false, arguments: {} }));
      await broker.api("POST", "/api/definitions", { queues });
    }
    await tab.go("#/");
    tab.asked.length = 0;
    await tab.go("#/queues");
    await tab.page.getByText(/^Page 1 of 1,99\d$/).waitFor();
    await tab.page.getByRole("button", { name: "Last" }).click();
    await tab.page.getByText(/^Page (1,99\d) of \1$/).waitFor();
    await tab.go("#/queues?name=many.997&sort=messages_ready&desc=1");
    await tab.page.getByText(/^100 of 99,\d{3}$/).waitFor();
    await shot(tab, "many");
    const whole = tab.asked.filter((one) => one.startsWith("GET /api/queues") && !one.includes("page_size=50"));
    return [...expect(whole.length === 0, `asked for a whole list: ${whole[0]}`), ...(await tab.faults())];
  });
}

/** What a view asks for must not grow with the number of queues. */
async function eachOfMany() {
  await traffic(broker);
  for (const view of [...VIEWS, ...KEPT, ...(await passing())]) {
    await check(`${view} with 100,000 queues`, async () => {
      tab.asked.length = 0;
      await tab.go(view);
      await shot(tab, `many${named(view)}`);
      const list = /^GET \/api\/((queues|exchanges|bindings|consumers)(\/[^/?]+)?|(vhosts\/[^/?]+\/)?(connections|sessions|channels))(\?|$)/;
      const whole = tab.asked.filter((one) => list.test(one) && !/[?&]page_size=\d+/.test(one));
      return [...expect(whole.length === 0, `asked for a whole list: ${whole[0]}`), ...(await sound(tab, { keyboard: false }))];
    });
  }
}

async function logout() {
  await check("a login survives a reload, and ends with the button", async () => {
    await tab.go("#/queues");
    await tab.page.reload();
    await tab.page.getByRole("heading", { name: "Queues and streams" }).waitFor();
    await tab.page.getByRole("button", { name: "Log out" }).click();
    await tab.page.getByRole("button", { name: "Log in" }).waitFor();
    const left = await tab.page.evaluate(() => sessionStorage.length);
    return expect(left === 0, "the login is still in the browser");
  });
}

async function provider() {
  await withProvider(process.env.SLUICE_BIN, async (idp, own, restart) => {
    const one = await Tab.open(browser, own.url, { fromDist: options.dist });
    // Here the provider is the only other server.
    const faults = async () => (await one.faults()).filter((fault) => !fault.startsWith(`loads from elsewhere: ${idp.url}/`));
    const button = one.page.getByRole("button", { name: "Sign in with the identity provider" });
    await check("a sign-in that the identity provider refuses says why", async () => {
      await one.page.goto(`${own.url}/#/queues`);
      await button.waitFor();
      const form = await sound(one);
      idp.refuses = "access_denied";
      await button.click();
      await one.page.getByRole("link", { name: "Continue" }).click();
      await one.page.getByText("The identity provider refuses: access_denied").waitFor();
      return [...form, ...expect(one.page.url() === `${own.url}/#/queues`, `the address is ${one.page.url()}`), ...(await faults())];
    });
    await check("a code that another tab has asked for is not used", async () => {
      await one.page.goto(`${own.url}/?code=stolen&state=other`);
      await one.page.getByText("did not begin in this tab").waitFor();
      return [...expect(idp.exchanged === 0, "the code was sent to the provider"), ...(await faults())];
    });
    await check("a sign-in with the identity provider opens the place that was asked for", async () => {
      await one.page.goto(`${own.url}/#/queues`);
      idp.refuses = "";
      await button.click();
      await one.page.getByRole("link", { name: "Continue" }).click();
      await one.page.getByRole("heading", { name: "Queues and streams" }).waitFor();
      await shot(one, "provider");
      const text = await one.text(".user");
      return [
        ...expect(text === "ann", `the user is ${text}`),
        ...expect(one.page.url() === `${own.url}/#/queues`, `the address is ${one.page.url()}`),
        ...expect(idp.exchanged === 1, `${idp.exchanged} codes were exchanged`),
        ...(await faults()),
      ];
    });
    await check("a token is renewed before it ends, also after a reload, and a refusal is said", async () => {
      await one.page.getByRole("button", { name: "Log out" }).click();
      idp.lifetime = 8;
      await button.click();
      await one.page.getByRole("link", { name: "Continue" }).click();
      await one.page.getByRole("heading", { name: "Overview" }).waitFor();
      await one.page.locator("header.top select").nth(1).selectOption("2");
      await until("two renewals", async () => idp.renewed >= 2);
      // Each refresh token is valid once, so the page must have the new one before it is loaded again.
      await until("the new token", async () => (await one.page.evaluate(() => sessionStorage.getItem("sluice.login")))?.includes(idp.refreshToken));
      await one.page.reload();
      const before = idp.renewed;
      await until("a renewal after the reload", async () => idp.renewed > before);
      const still = await one.page.getByRole("heading", { name: "Overview" }).count();
      idp.refusesRenewal = "the session was ended";
      await one.page.getByText("The sign-in could not be renewed").waitFor();
      const note = await one.text(".note");
      const left = await one.page.evaluate(() => sessionStorage.getItem("sluice.login"));
      // The refusal is what the test has asked for.
      one.refused.length = 0;
      return [
        ...expect(still === 1, "the page asks for a login after the reload"),
        ...includes(note, "refuses: the session was ended"),
        ...expect(left === null, "the login is still in the browser"),
        ...(await faults()),
      ];
    });
    await check("without passwords, the page offers the identity provider only", async () => {
      await one.page.getByLabel("Password").waitFor();
      await restart({ "management.oauth_disable_basic_auth": true });
      await one.page.reload();
      await button.waitFor();
      const fields = await one.page.getByLabel("Password").count();
      const refused = await fetch(`${own.url}/api/whoami`, { headers: { authorization: `Basic ${Buffer.from("guest:guest").toString("base64")}` } });
      return [...expect(fields === 0, "it asks for a password"), ...expect(refused.status === 401, `a password is answered with ${refused.status}`), ...(await sound(one)), ...(await faults())];
    });
    await one.close();
  });
}
