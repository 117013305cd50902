// A phone: long names, choices that close again, and what is at hand.
import { check, expect, hash, includes, shot, sound, until } from "./checks.mjs";
import { Client091 } from "./wire.mjs";

/** The consumer tag that pika makes: 38 characters without a place to break. */
export const TAG = `ctag1.${"0123456789abcdef".repeat(2)}`;

/** A key that does not fit into one line of a phone. */
const KEY = `key.${"x".repeat(120)}`;

/** `open` opens a tab. */
export async function phones(broker, tab, open) {
  const small = await open({ width: 390, height: 844, touch: true });
  await check("the login has what password managers and phones need", async () => {
    await small.page.goto(small.url);
    const of = (label) => small.page.getByLabel(label).evaluate((one) => [one.autocomplete, one.autocapitalize].join());
    const [user, password] = [await of("User"), await of("Password")];
    return [...expect(user === "username,none", `User has ${user}`), ...expect(password.startsWith("current-password,"), `Password has ${password}`)];
  });
  await small.login("guest", "guest");
  await broker.api("PUT", "/api/queues/%2F/tagged", {});
  const client = await Client091.open(broker.amqp, [1]);
  await client.consume(1, "tagged", TAG, 1);
  await until("the consumer", async () => (await broker.api("GET", "/api/queues/%2F/tagged")).consumer_details.length === 1);
  for (let i = 0; i < 2; i++) client.publish(1, "tagged", "x");
  const connection = (await broker.api("GET", "/api/queues/%2F/tagged")).consumer_details[0].channel_details.connection_name;
  for (const view of [hash("queues", "/", "tagged"), hash("connections", connection), "#/consumers", `#/why?${new URLSearchParams({ kind: "queue", vhost: "/", name: "tagged" })}`, `#/why?${new URLSearchParams({ kind: "link", vhost: "/", name: TAG })}`]) {
    await check(`${view.slice(0, 40)}: a long consumer tag wraps on a phone`, async () => {
      await small.go(view);
      await small.page.getByText(TAG).first().waitFor();
      await shot(small, `phone-tag${view.slice(1, 8).replaceAll(/\W+/g, "-")}`);
      return sound(small, { keyboard: false });
    });
  }
  client.close();
  await broker.api("DELETE", "/api/queues/%2F/tagged");
  await check("all of a long annotation of a message is seen on a phone, and its buttons are inside its frame", async () => {
    await broker.api("PUT", "/api/queues/%2F/annotated", {});
    await broker.api("PUT", "/api/exchanges/%2F/annotating", { type: "fanout" });
    await broker.api("POST", "/api/bindings/%2F/e/annotating/q/annotated", { routing_key: "", arguments: {} });
    await broker.api("POST", "/api/exchanges/%2F/annotating/publish", { routing_key: KEY, properties: { headers: { "a-header": KEY } }, payload: "x", payload_encoding: "string" });
    const wrong = [];
    for (const tab_ of [small, tab]) {
      await tab_.go(hash("queues", "/", "annotated"));
      await tab_.page.getByRole("button", { name: "Look", exact: true }).click();
      const message = tab_.page.locator("article.message");
      await message.waitFor();
      await message.scrollIntoViewIfNeeded();
      await shot(tab_, `annotated-${tab_ === small}`);
      const out = await message.evaluate((frame) => {
        const { left, right } = frame.getBoundingClientRect();
        // The ink of a text may leave its element, so its lines are measured.
        const lines = (one) => {
          const range = document.createRange();
          range.selectNodeContents(one);
          return [...range.getClientRects(), one.getBoundingClientRect()];
        };
        return [...frame.querySelectorAll("button, li, b")].filter((one) => lines(one).some((box) => box.right > right - 1 || box.left < left + 4)).map((one) => one.outerHTML.slice(0, 60));
      });
      wrong.push(...expect(out.length === 0, `${tab_ === small ? "phone" : "desktop"}: outside of the frame: ${out}`), ...(await tab_.tooWide()));
    }
    await broker.api("DELETE", "/api/queues/%2F/annotated");
    await broker.api("DELETE", "/api/exchanges/%2F/annotating");
    await tab.go("#/");
    await small.go("#/");
    return [...wrong, ...(await small.faults()).filter((one) => !one.startsWith("answer: 404"))];
  });
  await check("the menu and the actions close on a choice, on a tap elsewhere and on Escape", async () => {
    const wrong = [];
    const gap = small.page.locator("main h1").first();
    const isOpen = (one) => one.evaluate((details) => details.open);
    const closed = async (one, how) => {
      await until(`${how} closes`, async () => !(await isOpen(one))).catch((error) => wrong.push(error.message));
      if (await isOpen(one)) await one.locator("summary").click();
    };
    await small.go("#/routing");
    const menu = small.page.locator("header.top details");
    await menu.locator("summary").click();
    await small.page.touchscreen.tap(40, 300);
    await closed(menu, "menu: a tap elsewhere");
    await menu.locator("summary").click();
    await small.page.keyboard.press("Escape");
    await closed(menu, "menu: Escape");
    await menu.locator("summary").click();
    await menu.getByLabel("Theme").selectOption("dark");
    await closed(menu, "menu: a choice");
    await menu.locator("summary").click();
    await menu.getByLabel("Theme").selectOption("auto");
    await small.go(hash("queues", "/", "load.081"));
    const actions = small.page.locator("main .listbar details");
    await actions.locator("summary").click();
    await gap.click({ position: { x: 2, y: 2 } });
    await closed(actions, "actions: a tap elsewhere");
    await actions.locator("summary").click();
    await small.page.keyboard.press("Escape");
    await closed(actions, "actions: Escape");
    await actions.locator("summary").click();
    await actions.getByRole("button", { name: "Purge" }).click();
    await small.page.getByRole("dialog").waitFor();
    const hidden = await actions.getByRole("button", { name: "Publish" }).isVisible();
    await shot(small, "phone-purge");
    await small.page.keyboard.press("Escape");
    await small.page.getByRole("dialog").waitFor({ state: "detached" });
    await closed(actions, "actions: a choice");
    const focused = await small.page.evaluate(() => document.activeElement?.innerText);
    await small.go(hash("exchanges", "/", "shop"));
    await actions.locator("summary").click();
    await actions.getByRole("link").click();
    await small.page.getByRole("heading", { name: "Where would a message go?" }).waitFor();
    return [...wrong, ...expect(!hidden, "the choices are still there behind the window"), ...expect(focused === "Actions", `${focused} has the focus`), ...(await small.faults())];
  });
  await check("actions lie over the greyed page when the broker is gone", async () => {
    await small.go(hash("queues", "/", "load.081"));
    await small.page.locator(".tiles").waitFor();
    const down = (url) => url.pathname.startsWith("/api/");
    await small.page.route(down, (route) => route.abort());
    await small.page.getByText("The broker has not answered since").waitFor();
    await small.page.locator("main .listbar summary").click();
    await shot(small, "phone-gone");
    const covered = await small.page.locator("main .listbar fieldset button").evaluateAll((all) => all.filter((one) => {
      const { left, top, width, height } = one.getBoundingClientRect();
      const hit = document.elementFromPoint(left + width / 2, top + height / 2);
      return hit !== null && !one.contains(hit);
    }).map((one) => one.innerText));
    await small.page.keyboard.press("Escape");
    await small.page.unroute(down);
    await small.page.getByText("The broker has not answered since").waitFor({ state: "detached" });
    await small.faults();
    return expect(covered.length === 0, `${covered} are covered`);
  });
  await check("an alarm is read as a whole on a phone, and leads to the overview", async () => {
    const alarms = (url) => url.pathname === "/api/health/checks/alarms";
    await small.page.route(alarms, (route) => route.fulfill({ status: 503, contentType: "application/json", body: JSON.stringify({ status: "failed", alarms: [{ resource: "memory", node: "sluice@a-machine-with-a-name" }] }) }));
    await small.page.reload();
    const pill = small.page.locator("header.top .health");
    await pill.getByText("Publishing is stopped.").waitFor();
    await shot(small, "phone-alarm");
    const cut = await pill.evaluate((one) => one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1);
    const { height } = await small.page.locator("header.top").boundingBox();
    const wrong = [...(await small.axe()), ...(await small.tooWide())];
    await pill.getByRole("link").click();
    await small.page.getByRole("heading", { name: "Overview" }).waitFor();
    await small.page.unroute(alarms);
    await small.faults();
    return [...wrong, ...expect(!cut, "the alarm is cut"), ...expect(height < 70, `the header is ${height} px high`)];
  });
  await check("what can be done with a row is beside its name on a phone", async () => {
    const wrong = [];
    for (const view of ["#/admin/users", "#/admin/vhosts", "#/admin/policies"]) {
      await small.go(view);
      const edit = await small.page.getByRole("button", { name: "Edit", exact: true }).first().boundingBox();
      wrong.push(...expect(edit.x + edit.width <= 390, `${view}: Edit ends at ${edit.x + edit.width}`));
      await shot(small, `phone-edit${view.slice(2).replaceAll("/", "-")}`);
    }
    return [...wrong, ...includes(await small.page.locator("main thead").first().innerText(), "Actions"), ...(await small.faults())];
  });
  await small.close();
}
