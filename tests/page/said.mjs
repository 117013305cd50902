// What the page says when something was done, when it is not permitted, and when it does not understand.
import { check, expect, hash, includes, shot, sound, until } from "./checks.mjs";
import { Client091 } from "./wire.mjs";

/** What people read after they have done something, and what stays on the page. */
export async function said(broker, tab, open) {
  const dialog = tab.page.getByRole("dialog");
  const notice = tab.page.locator("main .notice[role=status]");
  await broker.api("PUT", "/api/queues/%2F/done", {});
  await broker.api("PUT", "/api/exchanges/%2F/done", { type: "fanout" });
  await broker.api("PUT", "/api/users/done", { password: "done", tags: "" });
  await broker.api("PUT", "/api/vhosts/done", {});
  await broker.api("PUT", "/api/policies/%2F/done", { pattern: "^never$", definition: { "max-length": 1 }, "apply-to": "queues" });
  await broker.api("PUT", "/api/operator-policies/%2F/done", { pattern: "^never$", definition: { "max-length": 1 }, "apply-to": "queues" });
  await broker.command("send", "--count", "3", "/queues/done", "x");
  const row = (name, nth) => ({ button: tab.page.getByRole("region", { name: `${name}, table`, exact: true }).locator("tr", { hasText: "done" }).getByRole("button", { name: "Delete" }).nth(nth ?? 0) });
  for (const [view, button, confirm, sentence, list] of [
    [hash("queues", "/", "done"), "Purge", "Purge 3 messages", "All ready messages were purged from done."],
    [hash("queues", "/", "done"), "Delete", "Delete the queue", "The queue done was deleted.", "#/queues"],
    [hash("exchanges", "/", "done"), "Delete", "Delete the exchange", "The exchange done was deleted.", "#/exchanges"],
    [hash("admin", "users", "done"), "Delete", "Delete the user", "The user done was deleted.", "#/admin/users"],
    [hash("admin", "vhosts", "done"), "Delete", "Delete the virtual host", "The virtual host done was deleted.", "#/admin/vhosts"],
    ["#/admin/policies", row("Policies").button, "Delete the policy", "The policy done was deleted.", "#/admin/policies"],
    ["#/admin/policies", row("Operator policies").button, "Delete the policy", "The operator policy done was deleted.", "#/admin/policies"],
  ]) {
    await check(`the page says: ${sentence}`, async () => {
      await tab.go(view);
      if (sentence.startsWith("3")) await until("the queue has all messages", async () => (await tab.text(".tiles")).includes("Ready\n3"));
      await (typeof button === "string" ? tab.page.getByRole("button", { name: button, exact: true }) : button).click();
      await dialog.getByRole("button", { name: confirm }).click();
      await notice.getByText(sentence.split(" done")[0]).waitFor();
      const text = await notice.innerText();
      const at = new URL(tab.page.url()).hash;
      return [...includes(text, sentence), ...expect(at === (list ?? view), `the page is at ${at}`), ...(await sound(tab, { keyboard: false })).filter((one) => !one.startsWith("answer: 404 GET"))];
    });
  }
  await check("the page says that a connection was closed", async () => {
    const client = await Client091.open(broker.amqp, [1]);
    await client.consume(1, "load.083", "to be closed", 1);
    await until("the consumer", async () => (await broker.api("GET", "/api/queues/%2F/load.083")).consumer_details.length === 1);
    const { channel_details: of } = (await broker.api("GET", "/api/queues/%2F/load.083")).consumer_details[0];
    await tab.go(hash("connections", of.connection_name));
    await tab.page.getByRole("button", { name: "Close", exact: true }).click();
    await dialog.getByRole("button", { name: "Close the connection" }).click();
    await notice.getByText("The connection").waitFor();
    client.close();
    return [...includes(await notice.innerText(), `The connection ${of.connection_name} was closed.`), ...(await tab.faults()).filter((one) => !one.startsWith("answer: 404 GET"))];
  });
  await check("a message that went back or was moved is no longer in the list of messages", async () => {
    await broker.api("PUT", "/api/queues/%2F/dying", { arguments: { "x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "died" } });
    await broker.api("PUT", "/api/queues/%2F/died", {});
    for (const body of ["first", "second"]) await broker.command("send", "/queues/dying", body);
    await broker.command("send", "/queues/died", "third");
    await until("the dead letter", async () => (await broker.api("GET", "/api/queues/%2F/died")).messages_ready === 2);
    await broker.api("DELETE", "/api/queues/%2F/dying/contents");
    await tab.go(hash("queues", "/", "died"));
    await tab.page.getByRole("button", { name: "Look", exact: true }).click();
    const lines = tab.page.locator("table.messages tr.line");
    await lines.nth(1).waitFor();
    await tab.page.getByRole("button", { name: "Open all" }).click();
    await tab.page.getByRole("button", { name: "Send it back to dying" }).click();
    await tab.page.getByText("The message went back to the queue dying.").waitFor();
    await until("one line", async () => (await lines.count()) === 1);
    await shot(tab, "went-back");
    await tab.page.getByRole("button", { name: "Move this message" }).click();
    await dialog.getByLabel("The queue that gets them").fill("load.084");
    await dialog.getByRole("button", { name: "Move", exact: true }).click();
    await tab.page.getByText("The message was moved to load.084.").waitFor();
    await tab.page.getByText("There is no message at this place.").waitFor();
    const wrong = await sound(tab, { keyboard: false });
    for (const name of ["dying", "died"]) await broker.api("DELETE", `/api/queues/%2F/${name}`);
    await tab.go("#/");
    return [...wrong, ...(await tab.faults()).filter((one) => !one.startsWith("answer: 404 GET"))];
  });
  await check("a time that is none is refused with the forms that are times, and older messages are not shown as its answer", async () => {
    await tab.go(hash("queues", "/", "invoices"));
    await tab.page.getByRole("button", { name: "Look", exact: true }).click();
    await tab.page.locator("table.messages").waitFor();
    await tab.page.getByLabel("Arrived since").fill("yesterday");
    await tab.page.getByRole("button", { name: "Look", exact: true }).click();
    const problem = tab.page.locator("main .problem");
    await problem.waitFor();
    const text = await problem.innerText();
    const left = await tab.page.locator("table.messages").count();
    await tab.page.getByLabel("Arrived since").fill("3650D");
    await tab.page.getByRole("button", { name: "Look", exact: true }).click();
    await tab.page.locator("table.messages").waitFor();
    return [...includes(text, "'yesterday' is not a time", "2026-01-31 08:00", "10m"), ...expect(!text.includes("milliseconds"), text), ...expect(left === 0, "the old messages are still there"), ...(await tab.faults())];
  });
  await check("“Why does nothing move?” offers the names that exist, and links to no page that does not", async () => {
    const offered = async (field) => {
      const id = await field.getAttribute("list");
      return id === null ? [] : tab.page.locator(`[id="${id}"] option`).evaluateAll((all) => all.map((one) => one.value));
    };
    await tab.go("#/why");
    const name = tab.page.getByLabel("Name", { exact: true });
    await name.fill("invoi");
    await until("a queue is offered", async () => (await offered(name)).join() === "invoices");
    await tab.page.getByLabel("Kind").selectOption("connection");
    await name.fill("127.0.0.1");
    await until("connections are offered", async () => (await offered(name)).some((one) => one.includes("->")));
    await tab.page.getByLabel("Kind").selectOption("queue");
    await name.fill("no such queue");
    await tab.page.getByRole("button", { name: "Ask" }).click();
    await tab.page.locator("main .problem").waitFor();
    const links = await tab.page.getByRole("link", { name: "its page" }).count();
    tab.refused.length = 0;
    await name.fill("invoices");
    await tab.page.getByRole("button", { name: "Ask" }).click();
    await tab.page.getByRole("link", { name: "its page" }).waitFor();
    return [...expect(links === 0, "there is a link to its page"), ...(await tab.faults())];
  });
  await check("commands in the broker's advice look like commands, without backticks", async () => {
    await tab.page.route((url) => url.pathname.startsWith("/api/explain/"), (route) => route.fulfill({ json: { kind: "queue", name: "q", cause: "queue_full", sentence: "the queue is full", causes: [{ cause: "queue_full", sentence: "the queue is full", meaning: "See `sluice get`.", advice: ["Run `sluice purge queue q`.", "A name with one ` stays."] }] } }));
    await tab.go(hash("queues", "/", "invoices"));
    await tab.page.locator(".explain code", { hasText: "sluice purge queue q" }).waitFor();
    const text = await tab.page.locator(".explain").innerText();
    await tab.page.unrouteAll();
    await tab.go("#/");
    return [...includes(text, "Run sluice purge queue q.", "See sluice get.", "A name with one ` stays."), ...(await tab.faults())];
  });
  await check("pages without rows say what is true of their object", async () => {
    await broker.api("PUT", "/api/users/carl", { password: "carl", tags: "monitoring" });
    await tab.go(hash("admin", "users", "carl"));
    await tab.page.getByText("carl may use no virtual host yet.").waitFor();
    const { pattern, definition, "apply-to": apply } = await broker.api("GET", "/api/operator-policies/%2F/ceiling");
    await broker.api("DELETE", "/api/operator-policies/%2F/ceiling");
    await tab.go("#/admin/policies");
    await tab.page.getByText("There are no operator policies.").waitFor();
    const policies = await tab.text('section:has(> header > h2:text-is("Operator policies"))');
    await broker.api("PUT", "/api/operator-policies/%2F/ceiling", { pattern, definition, "apply-to": apply });
    await tab.go(hash("queues", "/", "load.082"));
    await tab.page.getByText("queue empty").first().waitFor();
    const empty = await tab.text(".causes");
    return [...expect(!policies.includes("A policy gives"), policies), ...expect(!empty.includes("Consumers wait"), empty), ...(await tab.faults())];
  });
  await check("the page names the tag that a user needs, and the next login begins at the overview", async () => {
    const carl = await open();
    carl.expectRefusals = true;
    await carl.login("carl", "carl");
    await carl.go("#/admin/users");
    await carl.page.getByText("This needs the tag administrator.").first().waitFor();
    const text = await carl.text();
    await carl.page.getByRole("button", { name: "Log out" }).click();
    await carl.page.getByLabel("User").fill("guest");
    await carl.page.getByLabel("Password").fill("guest");
    await carl.page.getByRole("button", { name: "Log in" }).click();
    // The form of the login has a heading, too.
    await carl.page.locator("nav.side").waitFor();
    await carl.page.locator("main h1").first().waitFor();
    const title = await carl.page.locator("main h1").first().innerText();
    await carl.close();
    await broker.api("DELETE", "/api/users/carl");
    return [...expect(!text.includes("Not administrator user"), text), ...expect(title === "Overview", `the login begins at ${title}`)];
  });
  await check("the consumers on a queue's page fit, and do not name the queue again", async () => {
    await tab.go(hash("queues", "/", "orders"));
    const table = tab.page.getByRole("region", { name: "Consumers, table" });
    await table.waitFor();
    const head = await table.locator("th").allInnerTexts();
    const wide = await table.evaluate((one) => one.scrollWidth - one.clientWidth);
    return [...expect(!head.includes("Queue") && head.includes("Client"), `the columns are ${head}`), ...expect(wide <= 0, `the table is ${wide} px too wide`), ...(await tab.faults())];
  });
  await check("a dead letter names its queue without a gap", async () => {
    await tab.go(hash("queues", "/", "dead letters"));
    await tab.page.getByRole("button", { name: "Look", exact: true }).click();
    const link = tab.page.locator(".death a.name").first();
    await link.waitFor();
    await shot(tab, "dead-letter-gap");
    const gap = await link.evaluate((one) => {
      const range = document.createRange();
      range.selectNodeContents(one);
      return one.getBoundingClientRect().width - range.getBoundingClientRect().width;
    });
    return [...expect(gap < 3, `the gap is ${gap} px wide`), ...(await tab.faults())];
  });
}
