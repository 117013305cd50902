// The list of what is not well, and what a phone shows first.
import { HOSTILE } from "./broker.mjs";
import { check, expect, hash, includes, picture, shot, sound, until } from "./checks.mjs";

const explain = (url) => url.pathname === "/api/explain";

/** An answer with all kinds of objects, and one with a name that would do harm. */
const TROUBLES = {
  troubles: [
    { cause: "queue_without_consumer", severity: "critical", sentence: "123 queues grow, and no client consumes from them", meaning: "Publishers fill the queue.", advice: ["Start a consumer.", "Or remove the binding."], count: 123, objects: [{ kind: "queue", vhost: "/", name: HOSTILE[0], numbers: { queue_ready: 5000 } }, ...Array.from({ length: 9 }, (_, i) => ({ kind: "stream", vhost: HOSTILE[1], name: `s${i}`, numbers: {} }))] },
    { cause: "certificate_ends_soon", severity: "warning", sentence: "1 certificate ends within two weeks", meaning: "Clients will refuse.", advice: ["Replace it."], count: 1, objects: [{ kind: "certificate", name: "/etc/sluice/cert.pem", numbers: { certificate_days: 3 } }] },
    { cause: "from_the_future", severity: "unheard", sentence: "2 things are odd", meaning: "Nobody knows.", advice: [], count: 4, objects: [{ kind: "connection", name: "127.0.0.1:1 -> 127.0.0.1:2", numbers: {} }, { kind: "user", name: "viewer" }, { kind: "node", name: "n@h" }, { kind: "address", name: "10.0.0.7" }] },
  ],
  looked_at: { queues: 5000, connections: 20 },
};

/** What is not well, as the broker and as a made up answer say it. */
export async function troubles(broker, tab, open) {
  await check("the overview begins with what is not well, and leads to it", async () => {
    await tab.go("#/");
    const list = tab.page.locator("ul.troubles");
    await list.waitFor();
    const said = await broker.api("GET", "/api/explain");
    const text = (await list.innerText()).replaceAll(/\s+/g, " ");
    const wrong = said.troubles.flatMap((one) => includes(text, one.sentence.slice(2)));
    await picture(tab, "troubles", tab.page.locator("section.panel", { has: list }));
    wrong.push(...(await sound(tab, { keyboard: false })));
    await list.getByRole("link", { name: "invoices", exact: true }).first().click();
    await tab.page.getByRole("heading", { name: "invoices" }).waitFor();
    return [...wrong, ...expect(said.troubles.length > 0, "the broker names no trouble"), ...(await tab.faults())];
  });
  await check("every kind of trouble is shown, in the dark and on a phone", async () => {
    const small = await open({ width: 390, height: 844, scheme: "dark" });
    await small.page.route(explain, (route) => route.fulfill({ json: TROUBLES }));
    await small.login("guest", "guest");
    await small.page.locator("ul.troubles").waitFor();
    await small.settled();
    const text = (await small.text("ul.troubles")).replaceAll(/\s+/g, " ");
    await shot(small, "phone-troubles");
    const first = await small.page.locator("ul.troubles").boundingBox();
    const wrong = [...(await sound(small, { keyboard: false })), ...expect(first.y < 300, `it begins at ${first.y}`)];
    const links = await small.page.locator(".troubled a.name").evaluateAll((all) => all.map((one) => one.getAttribute("href")));
    const marked = await small.page.locator("main :is(script, img)").count();
    await small.page.locator("ul.troubles summary").nth(1).focus();
    await small.page.keyboard.press("Enter");
    await small.page.getByText("Replace it.").waitFor();
    await small.page.unroute(explain);
    await small.page.route(explain, (route) => route.fulfill({ json: { troubles: [], looked_at: { queues: 7, connections: 1 } } }));
    await small.go("#/queues");
    await small.go("#/");
    await small.page.getByText("Nothing is wrong.").waitFor();
    wrong.push(...includes(await small.text(".well"), "Looked at 7 queues and 1 connection."), ...(await small.axe()));
    for (const status of [401, 403, 404]) {
      await small.page.unroute(explain);
      await small.page.route(explain, (route) => route.fulfill({ status, json: { error: "not_authorised", reason: "no" } }));
      await small.go("#/queues");
      await small.go("#/");
      await small.page.locator(".tile").first().waitFor();
      const shown = await small.page.locator(".well, ul.troubles, main .problem").count();
      wrong.push(...expect(shown === 0, `an answer with ${status} looks like a trouble`));
    }
    small.refused.length = 0;
    wrong.push(...(await small.faults()));
    await small.close();
    return [
      ...wrong,
      ...includes(text, "critical 123 queues grow, and no client consumes from them", "Ready messages 5,000", "and 113 more", "Start a consumer.", "1 certificate ends", "10.0.0.7", "2 things are odd"),
      ...expect(links.length === 13 && links.includes(hash("queues", "/", HOSTILE[0])) && links.includes(hash("admin", "users", "viewer")), `the links are ${links}`),
      ...expect(marked === 0, "a name became markup"),
    ];
  });
  await check("a phone shows the name, what is ready and the cause first, and a header of one row", async () => {
    const small = await open({ width: 390, height: 844 });
    await small.page.route(explain, (route) => route.fulfill({ json: { troubles: [], looked_at: { queues: 7, connections: 1 } } }));
    await small.login("guest", "guest");
    const header = await small.page.locator("header.top").boundingBox();
    await small.page.locator("header.top summary").focus();
    await small.page.keyboard.press("Enter");
    await small.page.getByRole("button", { name: "Log out" }).waitFor();
    const covered = await small.page.locator("header.top fieldset label, header.top fieldset button").evaluateAll((all) => all.filter((one) => {
      const { left, top, width, height } = one.getBoundingClientRect();
      return !one.contains(document.elementFromPoint(left + width / 2, top + height / 2)) && !document.elementFromPoint(left + width / 2, top + height / 2)?.contains(one);
    }).length);
    await shot(small, "phone-menu");
    const wrong = [...(await small.axe()), ...(await small.tooWide())];
    await small.page.locator("header.top summary").click();
    await small.go("#/queues?name=invoices");
    const columns = await small.page.locator("main thead th").allInnerTexts();
    const row = small.page.locator("main tbody tr").first();
    const seen = await row.locator("td").evaluateAll((all) => all.slice(0, 3).map((one) => one.getBoundingClientRect().right <= innerWidth));
    await small.page.locator("main .scroll").evaluate((one) => (one.scrollLeft = 500));
    const name = await row.locator("td").first().boundingBox();
    await shot(small, "phone-list");
    await small.go(hash("queues", "/", "invoices"));
    await small.page.locator(".explain .sentence").first().waitFor();
    const [ready, cause, actions] = await Promise.all([".tile", ".explain .sentence", ".listbar"].map((one) => small.page.locator(one).first().boundingBox()));
    await shot(small, "phone-queue");
    wrong.push(...(await sound(small, { keyboard: false })));
    await small.page.getByText("Actions", { exact: true }).first().click();
    await small.page.getByRole("button", { name: "Purge" }).click();
    await small.page.getByRole("dialog").waitFor();
    await small.page.keyboard.press("Escape");
    wrong.push(...(await small.faults()));
    await small.close();
    return [
      ...wrong,
      ...expect(covered === 0, `${covered} choices of the menu are covered`),
      ...expect(header.height < 60, `the header is ${header.height} high`),
      ...expect(columns[0].startsWith("Name") && columns[1] === "Ready" && columns[2] === "Actions", `the columns are ${columns}`),
      ...expect(seen.every(Boolean), `of the first columns can be seen: ${seen}`),
      ...expect(name.x >= 0, "the name does not stay in sight"),
      ...expect(ready.y < cause.y && cause.y < 420 && actions.height < 80, `Ready begins at ${ready.y}, the cause at ${cause.y}, and the title is ${actions.height} high`),
    ];
  });
}
