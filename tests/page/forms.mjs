// Forms that know what the broker has: arguments with their types, names that exist, and all properties of a message.
import { check, expect, hash, includes, picture, shot, until } from "./checks.mjs";

/** What people fill in to make queues, policies, bindings and messages. */
export async function forms(broker, tab) {
  const dialog = tab.page.getByRole("dialog");
  const offered = async (field) => {
    const id = await field.getAttribute("list");
    return tab.page.locator(`[id="${id}"] option`).evaluateAll((all) => all.map((one) => one.value));
  };
  await check("an argument of a queue is chosen with its type and meaning, as the broker knows it", async () => {
    const { queue_arguments: known } = await broker.api("GET", "/api/arguments");
    await tab.go("#/queues");
    await tab.page.getByRole("button", { name: "Create a queue" }).click();
    const choice = dialog.getByLabel("Choose an argument");
    await dialog.getByLabel("Name", { exact: true }).fill("chosen");
    await dialog.getByLabel("Type").selectOption("quorum");
    await until("the arguments", async () => (await choice.locator("option").count()) > 1);
    const names = await choice.locator("option").evaluateAll((all) => all.map((one) => one.value).filter((one) => one !== ""));
    const wanted = known.filter((one) => one.types.includes("quorum")).map((one) => one.name);
    await choice.selectOption("x-delivery-limit");
    const wrong = includes(await dialog.innerText(), known.find((one) => one.name === "x-delivery-limit").about);
    const add = dialog.getByRole("button", { name: /^Add x-/ });
    await dialog.getByLabel("Value").fill("many");
    await dialog.getByText("x-delivery-limit needs a whole number.").waitFor();
    const refuses = await add.isDisabled();
    await dialog.getByLabel("Value").fill("7");
    await shot(tab, "argument");
    await picture(tab, "argument", dialog);
    wrong.push(...(await tab.axe()));
    await tab.page.keyboard.press("Enter");
    await choice.selectOption("x-dead-letter-exchange");
    const value = dialog.getByLabel("Value");
    await value.fill("sho");
    await until("the exchange is offered", async () => (await offered(value)).join() === "shop");
    await value.fill("shop");
    await add.click();
    await choice.selectOption("x-overflow");
    await dialog.getByLabel("Value").selectOption("reject-publish");
    await add.click();
    await dialog.getByLabel("Type").selectOption("stream");
    await dialog.getByText("x-delivery-limit is for quorum only.").waitFor();
    await dialog.getByLabel("Type").selectOption("quorum");
    const typed = await dialog.getByLabel("Arguments").inputValue();
    await dialog.getByRole("button", { name: "Create", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    const made = JSON.stringify((await broker.api("GET", "/api/queues/%2F/chosen")).arguments);
    await broker.api("DELETE", "/api/queues/%2F/chosen");
    return [
      ...wrong,
      ...expect(names.join() === wanted.join() && names.length > 10, `${names} are offered, not ${wanted}`),
      ...expect(refuses, "a wrong value can be added"),
      ...expect(typed === "x-delivery-limit=7\nx-dead-letter-exchange=shop\nx-overflow=reject-publish", `typed: ${typed}`),
      ...expect(made === '{"x-dead-letter-exchange":"shop","x-delivery-limit":7,"x-overflow":"reject-publish","x-queue-type":"quorum"}', `made: ${made}`),
      ...(await tab.faults()),
    ];
  });
  await check("a policy offers the keys that have an effect on what it is for", async () => {
    const wrong = [];
    await tab.go("#/admin/policies");
    for (const [button, has, hasNot] of [["0", ["max-length", "dead-letter-exchange"], ["alternate-exchange", "max-age"]], ["1", ["max-length"], ["dead-letter-exchange", "alternate-exchange"]]]) {
      await tab.page.getByRole("button", { name: "Add a policy" }).nth(Number(button)).click();
      await dialog.getByLabel("Applies to").selectOption("quorum_queues");
      const keys = dialog.getByLabel("Choose a key").locator("option");
      await until("the keys", async () => (await keys.count()) > 1);
      const names = await keys.evaluateAll((all) => all.map((one) => one.value));
      for (const name of has) wrong.push(...expect(names.includes(name), `${name} is not offered`));
      for (const name of hasNot) wrong.push(...expect(!names.includes(name), `${name} is offered`));
      await tab.page.keyboard.press("Escape");
    }
    return [...wrong, ...(await tab.faults())];
  });
  await check("a queue is bound with arguments to an exchange whose name is offered", async () => {
    await tab.go(hash("queues", "/", "load.070"));
    await tab.page.getByRole("button", { name: "Bind", exact: true }).click();
    const name = dialog.getByLabel("Exchange");
    await name.fill("bill");
    await until("the exchange is offered", async () => (await offered(name)).join() === "billing");
    await name.fill("billing");
    await dialog.getByLabel("Arguments").fill("x-match=any\ncountry=FR");
    const line = await dialog.locator(".command code").innerText();
    await dialog.getByRole("button", { name: "Bind", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    await tab.page.locator("tr", { hasText: "billing" }).getByText("FR").waitFor();
    const bindings = async () => (await broker.api("GET", "/api/bindings/%2F/e/billing/q/load.070")).map((one) => JSON.stringify(one.arguments));
    const made = await bindings();
    const [{ properties_key: key }] = await broker.api("GET", "/api/bindings/%2F/e/billing/q/load.070");
    await broker.api("DELETE", `/api/bindings/%2F/e/billing/q/load.070/${encodeURIComponent(key)}`);
    await broker.line(line);
    const same = await bindings();
    await broker.api("DELETE", `/api/bindings/%2F/e/billing/q/load.070/${encodeURIComponent(key)}`);
    return [...expect(made.length === 1 && made[0] === same[0] && made[0].includes('"country":"FR"'), `made: ${made}, by the command: ${same}`), ...(await tab.faults())];
  });
  await check("a message is published with all properties, and so by its command", async () => {
    await tab.go(hash("queues", "/", "load.071"));
    await tab.page.getByRole("button", { name: "Publish", exact: true }).first().click();
    await dialog.getByLabel("Body").fill("with everything");
    await dialog.getByText("More properties").click();
    const given = { "Content encoding": "gzip", Priority: "7", Expiration: "3600000", "Message id": "m 1", "Correlation id": "c", "Reply to": "r", Timestamp: "1700000000", Type: "t", "User id": "guest", "App id": "a", "Cluster id": "k" };
    for (const [label, value] of Object.entries(given)) await dialog.getByLabel(label, { exact: true }).fill(value);
    await dialog.getByLabel("Content type").fill("text/plain");
    await shot(tab, "properties");
    const wrong = [...(await tab.axe()), ...(await tab.tooWide())];
    const line = await dialog.locator(".command code").innerText();
    await dialog.getByRole("button", { name: "Publish", exact: true }).click();
    await dialog.getByText("Published and routed.").waitFor();
    await dialog.getByLabel("Sent as").selectOption("base64");
    await dialog.getByLabel("Body").fill("/w==");
    const lines = await dialog.locator(".command code").count();
    await dialog.getByRole("button", { name: "Publish", exact: true }).click();
    await until("the octets", async () => (await broker.api("GET", "/api/queues/%2F/load.071")).messages_ready === 2);
    await tab.page.keyboard.press("Escape");
    await broker.line(line);
    const got = await broker.api("POST", "/api/queues/%2F/load.071/get", { count: 3, ackmode: "ack_requeue_false", encoding: "auto" });
    const sorted = (row) => JSON.stringify(Object.entries(row.properties).sort());
    const [first, octets, last] = got;
    const { headers, delivery_mode: mode, ...set } = first.properties;
    const values = Object.values(set).map(String).sort();
    const wanted = [...Object.values(given), "text/plain"].sort();
    return [
      ...wrong,
      ...expect(values.join() === wanted.join() && mode === 2, `published: ${sorted(first)}`),
      ...expect(sorted(first) === sorted(last), `by the command: ${sorted(last)}`),
      ...expect(octets.payload === "/w==" && octets.payload_encoding === "base64", `octets: ${JSON.stringify(octets)}`),
      ...expect(lines === 0, "octets have a command that would send their text"),
      ...(await tab.faults()),
    ];
  });
}
