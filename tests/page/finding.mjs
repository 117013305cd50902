// Finding rows in long lists, objects that do not exist, the pages of users and virtual hosts, and what only some may do.
import { check, expect, hash, includes, picture, shot, sound, until } from "./checks.mjs";

/** Lists with filters, and pages of users and virtual hosts. */
export async function finding(broker, tab) {
  await check("a list is narrowed by type, state, policy and problem, and a bookmark keeps it", async () => {
    await tab.go("#/queues");
    await tab.page.locator("summary", { hasText: "Filters" }).click();
    const filters = tab.page.locator("details.chooser", { hasText: "Filters" });
    const names = async () => tab.page.locator("main tbody tr td:first-child").allInnerTexts();
    await filters.getByLabel("Type").selectOption("quorum");
    await until("quorum queues", async () => (await names()).join() === "payments");
    const wrong = [...(await tab.axe()), ...(await tab.tooWide())];
    await shot(tab, "filters");
    await filters.getByLabel("Type").selectOption("");
    await filters.getByLabel("Policy").selectOption("short");
    await until("queues with the policy", async () => (await names()).length === 10);
    await tab.page.reload();
    await tab.page.getByText("10 of").waitFor();
    await tab.page.locator("summary", { hasText: "Filters (1)" }).click();
    await filters.getByRole("button", { name: "No filters" }).click();
    const problem = "Only if damaged, if members are missing, or if a queue has messages and no consumer";
    await filters.getByLabel(problem).check();
    wrong.push(...includes(await filters.innerText(), "The overview also lists queues that are full, refuse messages or have no leader."));
    const rows = await broker.api("GET", "/api/queues/%2F");
    const expected = rows.filter((row) => row.type !== "stream" && row.messages_ready > 0 && row.consumers === 0).map((row) => row.name);
    // The list is there before it is narrowed.
    await until(`only ${expected}`, async () => (await names()).join() === expected.join());
    await filters.getByLabel("State").selectOption("damaged");
    await tab.page.getByText(`Nothing fits the filters: ${problem}; State damaged.`).waitFor();
    await tab.go("#/exchanges?type=headers");
    const headers = await names();
    await tab.go("#/connections?state=blocked");
    await tab.page.getByText("Nothing fits the filters: State blocked.").waitFor();
    return [
      ...wrong,
      ...expect(expected.length > 0, "no queue has a problem"),
      ...expect(headers.includes("billing") && headers.every((name) => !name.includes("topic")), `headers exchanges: ${headers}`),
      ...(await tab.faults()),
    ];
  });
  await check("a list shows as many rows as are wanted, also next time", async () => {
    await tab.go("#/queues");
    await tab.page.getByLabel("Rows").selectOption("100");
    await until("100 rows", async () => (await tab.page.locator("main tbody tr").count()) === 100);
    const address = tab.page.url();
    await tab.go("#/exchanges");
    const rows = await tab.page.locator("main tbody tr").count();
    await tab.page.getByLabel("Rows").selectOption("50");
    await until("50 rows", async () => (await tab.page.locator("main tbody tr").count()) === 50);
    return [...expect(address.includes("rows=100"), `the address is ${address}`), ...expect(rows > 50, `${rows} rows of exchanges`), ...(await tab.faults())];
  });
  await check("dead-letter exchange, time to live and limits are in the list and on the page of a queue", async () => {
    await tab.go("#/queues?name=late");
    const row = await tab.page.locator("main tbody tr", { hasText: "late" }).first().innerText();
    await tab.go("#/queues?name=load.003");
    const limited = await tab.page.locator("main tbody tr").first().innerText();
    await tab.go(hash("queues", "/", "late"));
    await tab.page.getByText("Time to live of messages").waitFor();
    const page = await tab.text();
    return [...includes(row, "DLX (default)", "TTL 1 ms"), ...includes(limited, "max 5,000"), ...includes(page.replaceAll("\n", " "), "Dead letters go to the exchange (default)", "Their routing key dead letters", "Time to live of messages 1 ms"), ...(await tab.faults())];
  });
  await check("an object that does not exist has one message", async () => {
    const wrong = [];
    const gone = "127.0.0.1:1 -> 127.0.0.1:2";
    for (const view of [hash("queues", "/", "no such"), hash("exchanges", "/", "no such"), hash("connections", gone), hash("sessions", `${gone} (0)`), hash("channels", `${gone} (1)`), hash("admin", "users", "no such"), hash("admin", "vhosts", "no such")]) {
      await tab.go(view);
      await until(`${view}: the message`, async () => (await tab.page.locator("main .problem").count()) > 0);
      const said = await tab.page.locator("main .problem").allInnerTexts();
      const buttons = await tab.page.locator("main button").count();
      wrong.push(...expect(said.length === 1 && said[0].startsWith("Not found\nThere is no "), `${view} says ${said}`), ...expect(buttons === 0, `${view} has ${buttons} buttons`), ...(await tab.axe()));
    }
    tab.refused.length = 0;
    return [...wrong, ...(await tab.faults())];
  });
  await check("a page has no buttons that act on an object until the broker says that it exists", async () => {
    const wrong = [];
    const gone = "127.0.0.1:1 -> 127.0.0.1:2";
    for (const [view, path] of [[hash("queues", "/", "no such"), "/api/queues/%2F/no%20such"], [hash("exchanges", "/", "no such"), "/api/exchanges/%2F/no%20such"], [hash("connections", gone), `/api/connections/${encodeURIComponent(gone)}`], [hash("admin", "users", "no such"), "/api/users/no%20such"], [hash("admin", "vhosts", "no such"), "/api/vhosts/no%20such"]]) {
      let release;
      const held = new Promise((done) => (release = done));
      const asked = (url) => url.pathname === path;
      await tab.page.route(asked, async (route) => {
        await held;
        await route.continue();
      });
      await tab.page.evaluate((to) => (location.hash = to), view);
      await tab.page.locator("h1", { hasText: /no such|127/ }).waitFor();
      // What else the view asks for is answered meanwhile.
      await tab.page.waitForTimeout(300);
      const before = await tab.page.locator("main :is(button, .problem)").allInnerTexts();
      release();
      await tab.page.locator("main .problem").waitFor();
      await tab.page.unroute(asked);
      wrong.push(...expect(before.length === 0, `${view} already shows ${before}`));
    }
    tab.refused.length = 0;
    return [...wrong, ...(await tab.faults())];
  });
  await check("the page of an object that is deleted while it is open has one message and a link to the list", async () => {
    const wrong = [];
    const objects = [
      [hash("queues", "/", "short life"), "/api/queues/%2F/short%20life", {}, "#/queues"],
      [hash("exchanges", "/", "short life"), "/api/exchanges/%2F/short%20life", { type: "fanout" }, "#/exchanges"],
      [hash("admin", "users", "short life"), "/api/users/short%20life", { password: "p", tags: "" }, "#/admin/users"],
      [hash("admin", "vhosts", "short life"), "/api/vhosts/short%20life", {}, "#/admin/vhosts"],
    ];
    await tab.page.locator("header.top select").nth(1).selectOption("2");
    for (const [view, path, body, list] of objects) {
      await broker.api("PUT", path, body);
      await tab.go(view);
      await tab.page.locator("main .danger").first().waitFor();
      await broker.api("DELETE", path);
      await tab.page.getByText("It was deleted or has ended").waitFor();
      const [said, buttons] = [await tab.page.locator("main .problem").count(), await tab.page.locator("main button").count()];
      wrong.push(...expect(said === 1 && buttons === 0, `${view} has ${said} messages and ${buttons} buttons`), ...(await tab.axe()));
      await tab.page.locator("main .crumbs a").click();
      await tab.settled();
      wrong.push(...expect(new URL(tab.page.url()).hash === list, `${view} leads to ${tab.page.url()}`));
    }
    await tab.page.locator("header.top select").nth(1).selectOption("5");
    tab.refused.length = 0;
    return [...wrong, ...(await tab.faults())];
  });
  await check("a user has a page, with permissions that are set there", async () => {
    await tab.go("#/admin/users");
    await tab.page.getByRole("region", { name: "Users, table" }).getByRole("link", { name: "viewer", exact: true }).click();
    await tab.page.getByRole("heading", { name: "viewer" }).waitFor();
    await tab.page.getByText("uses this page and the HTTP API").waitFor();
    await tab.settled();
    const text = await tab.text();
    await shot(tab, "user");
    await picture(tab, "user");
    const wrong = await sound(tab);
    await tab.page.getByRole("button", { name: "Set a limit" }).click();
    const dialog = tab.page.getByRole("dialog");
    await dialog.getByLabel("At most").fill("7");
    await dialog.getByRole("button", { name: "Set", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    await until("the limit", async () => (await tab.text()).includes("Connections at most\n7"));
    await broker.api("DELETE", "/api/user-limits/viewer/max-connections");
    await tab.go(hash("admin", "users", "guest"));
    await tab.page.getByText("may do everything").waitFor();
    await until("the connections", async () => (await tab.page.getByRole("region", { name: "Connections of guest, table" }).locator("tbody tr").count()) > 1);
    return [...wrong, ...includes(text, "^orders$", "amq.topic", "The user is not connected."), ...(await tab.faults())];
  });
  await check("a virtual host has a page with its numbers, limits and users, and leads to its lists", async () => {
    await tab.go("#/admin/vhosts");
    await tab.page.getByRole("region", { name: "Virtual hosts, table" }).getByRole("link", { name: "/", exact: true }).click();
    await tab.page.getByRole("heading", { name: "/", exact: true }).waitFor();
    await tab.page.getByText("Who may use it").waitFor();
    await tab.settled();
    const text = await tab.text();
    await shot(tab, "vhost");
    await picture(tab, "vhost");
    const wrong = await sound(tab, { keyboard: false });
    await tab.page.getByRole("link", { name: "Queues and streams of /" }).click();
    await tab.page.getByRole("heading", { name: "Queues and streams" }).waitFor();
    const choice = tab.page.locator("header.top select").first();
    const chosen = await choice.inputValue();
    await choice.selectOption("");
    return [...wrong, ...includes(text, "Connections at most\n1,000", "viewer", "^orders$"), ...expect(chosen === "/", `the chosen virtual host is '${chosen}'`), ...(await tab.faults())];
  });
}

/** What a user with few rights is not offered. `viewer` is the tab of one who may read the queue "orders". */
export async function offers(viewer) {
  await check("buttons are there for those who may use them", async () => {
    const wrong = [];
    const buttons = async (view) => {
      await viewer.go(view);
      await viewer.settled();
      return viewer.page.locator("main :is(.actions, .aside) > button, main .actions button").allInnerTexts();
    };
    const orders = await buttons(hash("queues", "/", "orders"));
    for (const name of ["Get", "Move", "Redrive", "Purge"]) wrong.push(...expect(orders.includes(name), `${name} is missing at a queue that may be read: ${orders}`));
    for (const name of ["Publish", "Delete", "Trace", "Bind", "Unbind"]) wrong.push(...expect(!orders.includes(name), `${name} is offered at a queue that may only be read`));
    const invoices = await buttons(hash("queues", "/", "invoices"));
    wrong.push(...expect(invoices.length === 0, `${invoices} are offered at a queue that may not be read`));
    for (const view of ["#/queues", "#/exchanges", hash("exchanges", "/", "shop"), "#/admin/vhosts", "#/admin/users", "#/admin/policies", "#/admin/limits", "#/admin/parameters", "#/admin/nodes", "#/admin/definitions"]) {
      const found = (await buttons(view)).filter((one) => one !== "Queues");
      const forbidden = found.filter((one) => !/^\d+ (min|h)$|^1 day$/.test(one));
      wrong.push(...expect(forbidden.length === 0, `${view}: ${forbidden} are offered`));
    }
    return wrong;
  });
}
