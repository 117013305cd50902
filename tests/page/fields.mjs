// The fields of windows: none keeps what was typed for another object, and none loses what was chosen.
import { check, expect, hash, includes, until } from "./checks.mjs";

/** The windows with fields: where they are, the name of their button, and fields with what is typed into them. */
const WINDOWS = [
  ["#/queues", "Create a queue", { Name: "kept", Type: "quorum", "Delete it with its last consumer": true, Arguments: "x-max-length=5" }],
  ["#/exchanges", "Create an exchange", { Name: "kept", Type: "fanout", "Internal: only other exchanges publish to it": true, Arguments: "alternate-exchange=shop" }],
  ["#/admin/users", "Add a user", { Name: "kept", Password: "secret", Tags: "administrator" }],
  ["#/admin/users", "Set permissions", { User: "viewer", Configure: "^kept$", Write: "^kept$", Read: "^kept$" }],
  ["#/admin/users", "Set topic permissions", { User: "viewer", "Publish with keys": "^kept$" }],
  ["#/admin/vhosts", "Add a virtual host", { Name: "kept", Description: "kept", Tags: "kept", "Default queue type": "quorum" }],
  ["#/admin/policies", "Add a policy", { Name: "kept", "Names that match": "^kept$", "Applies to": "streams", Priority: "7", Definition: "max-age=7D" }],
  ["#/admin/limits", "Set a limit", { Limit: "max-queues", "At most": "7" }],
  ["#/admin/parameters", "Set a parameter", { Component: "kept", Name: "kept", Value: "7" }],
  ["#/admin/nodes", "Rename", { Name: "kept" }],
  ["#/admin/definitions", "Export", { "With the users and the hashes of their passwords": true }],
  ["#/admin/definitions", "Import", { "Leave out what this broker does not know: types of exchanges, keys of policies, and arguments that no queue takes": true }],
  [hash("queues", "/", "load.080"), "Publish", { Body: "kept", Headers: "kept=1", "Content type": "text/kept", "Durable: it survives a restart": false }],
  [hash("queues", "/", "load.080"), "Get", { Then: "ack_requeue_false", "How many": "7" }],
  [hash("queues", "/", "load.080"), "Move", { "The queue that gets them": "kept", "They have the header": "kept=1" }],
  [hash("queues", "/", "load.080"), "Redrive", { "They died because": "expired", "At most per second": "7" }],
  [hash("queues", "/", "load.080"), "Trace", { "For how many seconds": "7" }],
  [hash("queues", "/", "load.080"), "Bind", { Exchange: "kept", "Binding key": "kept", Arguments: "kept=1" }],
  [hash("exchanges", "/", "shop"), "Bind", { To: "e", Name: "kept", "Binding key": "kept", Arguments: "kept=1" }],
];

/** Windows with fields, as people use them one after the other. */
export async function fields(broker, tab) {
  const dialog = tab.page.getByRole("dialog");
  const field = (label) => dialog.getByLabel(label, { exact: true });
  const open = async (view, button) => {
    await tab.go(view);
    await tab.page.getByRole("button", { name: button, exact: true }).first().click();
    await dialog.waitFor();
  };
  const values = () => dialog.locator("input:not([type=file]), select, textarea").evaluateAll((all) => all.map((one) => (one.type === "checkbox" ? one.checked : one.value)).join(" | "));
  const type = async (wanted) => {
    for (const [label, value] of Object.entries(wanted)) {
      if (typeof value === "boolean") await field(label).setChecked(value);
      else if ((await field(label).evaluate((one) => one.tagName)) === "SELECT") await field(label).selectOption(value);
      else await field(label).fill(value);
    }
  };
  for (const [view, button, wanted] of WINDOWS) {
    await check(`${view}: “${button}” begins anew after Escape and after Cancel`, async () => {
      await open(view, button);
      const first = await values();
      const wrong = [];
      for (const leave of ["Escape", "Cancel"]) {
        await type(wanted);
        const typed = await values();
        if (leave === "Escape") await tab.page.keyboard.press("Escape");
        else await dialog.getByRole("button", { name: "Cancel" }).click();
        await dialog.waitFor({ state: "detached" });
        await tab.page.getByRole("button", { name: button, exact: true }).first().click();
        await dialog.waitFor();
        const again = await values();
        wrong.push(...expect(typed !== first, "nothing was typed"), ...expect(again === first, `after ${leave}: ${again}, not ${first}`));
      }
      await tab.page.keyboard.press("Escape");
      await dialog.waitFor({ state: "detached" });
      return [...wrong, ...(await tab.faults())];
    });
  }
  await check("a second user gets nothing of the first one, and a second queue no argument of the first", async () => {
    await open("#/admin/users", "Add a user");
    await type({ Name: "kept-1", Password: "secret", Tags: "administrator" });
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    await open("#/admin/users", "Add a user");
    const password = await field("Password").inputValue();
    await type({ Name: "kept-2", Password: "other" });
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    const { tags } = await broker.api("GET", "/api/users/kept-2");
    await open("#/queues", "Create a queue");
    await type({ Name: "kept-1", Type: "quorum", Arguments: "x-max-length=5" });
    await dialog.getByRole("button", { name: "Create", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    await open("#/queues", "Create a queue");
    await type({ Name: "kept-2" });
    await dialog.getByRole("button", { name: "Create", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    const { arguments: own, auto_delete: leaves } = await broker.api("GET", "/api/queues/%2F/kept-2");
    for (const name of ["kept-1", "kept-2"]) for (const list of ["users", "queues/%2F"]) await broker.api("DELETE", `/api/${list}/${name}`);
    return [
      ...expect(password === "", "the password of the first user is still there"),
      ...expect(tags.length === 0, `the second user has the tags ${tags}`),
      ...expect(own["x-max-length"] === undefined && own["x-queue-type"] === "classic" && !leaves, `the second queue has ${JSON.stringify(own)}`),
      ...(await tab.faults()),
    ];
  });
  await check("an edited object is shown as it is now, not as it was when the list was loaded", async () => {
    await broker.api("PUT", "/api/policies/%2F/edited", { pattern: "^never$", definition: { "max-length": 1 }, "apply-to": "queues" });
    await tab.page.locator("header.top select").nth(1).selectOption("2");
    await tab.go("#/admin/policies");
    const row = tab.page.locator("tr", { hasText: "edited" });
    await row.getByText("max-length 1", { exact: true }).waitFor();
    await broker.api("PUT", "/api/policies/%2F/edited", { pattern: "^never$", definition: { "max-length": 2 }, "apply-to": "queues" });
    await row.getByText("max-length 2", { exact: true }).waitFor();
    await row.getByRole("button", { name: "Edit" }).click();
    const shown = await field("Definition").inputValue();
    await tab.page.keyboard.press("Escape");
    await broker.api("DELETE", "/api/policies/%2F/edited");
    await tab.page.locator("header.top select").nth(1).selectOption("5");
    return [...expect(shown === "max-length=2", `the window has ${shown}`), ...(await tab.faults())];
  });
  for (const [what, view, nth, button, typed, key, value, path, of] of [
    ["queue", "#/queues", 0, "Create a queue", { Name: "pending" }, "x-max-length", "7", "/api/queues/%2F/pending", "arguments"],
    ["exchange", "#/exchanges", 0, "Create an exchange", { Name: "pending" }, "alternate-exchange", "shop", "/api/exchanges/%2F/pending", "arguments"],
    ["policy", "#/admin/policies", 0, "Add a policy", { Name: "pending", "Names that match": "^never$" }, "max-length", "7", "/api/policies/%2F/pending", "definition"],
    ["operator policy", "#/admin/policies", 1, "Add a policy", { Name: "pending", "Names that match": "^never$" }, "max-length", "7", "/api/operator-policies/%2F/pending", "definition"],
  ]) {
    await check(`a value that is chosen for a new ${what} is taken along without “Add”`, async () => {
      await tab.go(view);
      await tab.page.getByRole("button", { name: button, exact: true }).nth(nth).click();
      await type(typed);
      const choice = dialog.getByLabel(/^Choose an? /);
      await until("the choices", async () => (await choice.locator("option").count()) > 1);
      await choice.selectOption(key);
      const about = await dialog.locator(".picked").innerText();
      await field("Value").fill(value);
      const line = await dialog.locator(".command code").innerText();
      await dialog.getByRole("button", { name: /^(Create|Add)$/ }).click();
      await dialog.waitFor({ state: "detached" });
      const get = async () => JSON.stringify((await broker.api("GET", path))[of][key]);
      const made = await get();
      await broker.api("DELETE", path);
      await broker.line(line);
      const same = await get();
      await broker.api("DELETE", path);
      const wanted = value === "7" ? value : JSON.stringify(value);
      return [...expect(made === wanted && same === wanted, `made: ${made}, by the command: ${same}`), ...expect(!what.includes("policy") || !/\bx-/.test(about), `a key of policies is explained so: ${about}`), ...(await tab.faults())];
    });
  }
  await check("a chosen value that is wrong or missing stops the window, and says why", async () => {
    await open("#/queues", "Create a queue");
    await type({ Name: "pending" });
    await until("the choices", async () => (await field("Choose an argument").locator("option").count()) > 1);
    await field("Choose an argument").selectOption("x-max-length");
    const said = [];
    for (const value of ["", "many"]) {
      await field("Value").fill(value);
      await dialog.getByRole("button", { name: "Create", exact: true }).click();
      said.push(await field("Value").evaluate((one) => one.validationMessage));
    }
    const open_ = await dialog.count();
    await tab.page.keyboard.press("Escape");
    const left = (await broker.api("GET", "/api/queues?name=pending&page=1&page_size=10")).items;
    return [...expect(open_ === 1 && left.length === 0, `the queue was created`), ...expect(said[0] !== "", "nothing is said of a missing value"), ...includes(said[1], "x-max-length needs a whole number"), ...(await tab.faults())];
  });
  await check("the command that adds a user gives it the same tags", async () => {
    await open("#/admin/users", "Add a user");
    await type({ Name: "tagged", Password: "secret", Tags: "monitoring, policymaker" });
    const line = await dialog.locator(".command code").innerText();
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    const get = async () => (await broker.api("GET", "/api/users/tagged")).tags.join();
    const made = await get();
    await broker.api("DELETE", "/api/users/tagged");
    await broker.line(`${line} --no-password`);
    const same = await get();
    await broker.api("DELETE", "/api/users/tagged");
    return [...includes(line, "--tags monitoring,policymaker"), ...expect(made === "monitoring,policymaker" && same === made, `made: ${made}, by the command: ${same}`), ...(await tab.faults())];
  });
  await check("the first field of a window has the focus", async () => {
    const wrong = [];
    for (const [view, button] of WINDOWS) {
      await open(view, button);
      const [has, first] = await dialog.evaluate((one) => [document.activeElement?.outerHTML.slice(0, 80), one.querySelector("input, select, textarea")?.outerHTML.slice(0, 80)]);
      wrong.push(...expect(has === first, `${button}: ${has} has the focus`));
      await tab.page.keyboard.press("Escape");
      await dialog.waitFor({ state: "detached" });
    }
    return [...wrong, ...(await tab.faults())];
  });
}
