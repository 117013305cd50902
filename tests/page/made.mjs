// What the page says when something was made, and what it warns about before.
import { check, expect, hash, includes, shot, sound } from "./checks.mjs";

const NAME = "made <b>&\u0007";

/** Creates one object of each kind, and follows the link of the confirmation. */
export async function made(broker, tab) {
  const dialog = tab.page.getByRole("dialog");
  const notice = tab.page.locator("main .notice");
  const shown = "made <b>&\\u{7}";
  const cases = [
    { what: "queue", view: "#/queues", button: "Create a queue", to: hash("queues", "/", NAME), path: `/api/queues/%2F/${encodeURIComponent(NAME)}`, again: "was there before, with the same settings" },
    { what: "exchange", view: "#/exchanges", button: "Create an exchange", to: hash("exchanges", "/", NAME), path: `/api/exchanges/%2F/${encodeURIComponent(NAME)}`, again: "was there before, with the same settings" },
    { what: "user", view: "#/admin/users", button: "Add a user", to: hash("admin", "users", NAME), path: `/api/users/${encodeURIComponent(NAME)}`, fields: { Password: "secret" }, next: "It may use no virtual host yet. Its page sets the permissions." },
    { what: "virtual host", view: "#/admin/vhosts", button: "Add a virtual host", to: hash("admin", "vhosts", NAME), path: `/api/vhosts/${encodeURIComponent(NAME)}`, again: "was there before, and has these settings now" },
    { what: "policy", view: "#/admin/policies", button: "Add a policy", path: `/api/policies/%2F/${encodeURIComponent(NAME)}`, fields: { "Names that match": "^never$", Definition: "max-length=5" }, again: "was there before, and has these settings now" },
    { what: "operator policy", view: "#/admin/policies", button: "Add a policy", nth: 1, path: `/api/operator-policies/%2F/${encodeURIComponent(NAME)}`, fields: { "Names that match": "^never$", Definition: "max-length=5" } },
  ];
  for (const { what, view, button, nth = 0, to, path, fields = {}, again, next = "" } of cases) {
    await check(`a new ${what} is confirmed with its name, and a link to it`, async () => {
      const create = async () => {
        await tab.go(view);
        await tab.page.getByRole("button", { name: button, exact: true }).nth(nth).click();
        await dialog.getByLabel("Name", { exact: true }).fill(NAME);
        for (const [label, value] of Object.entries(fields)) await dialog.getByLabel(label, { exact: true }).fill(value);
        await dialog.getByRole("button", { name: /^(Create|Add)$/ }).click();
        await dialog.waitFor({ state: "detached" });
        await notice.getByRole("link").waitFor();
        return notice.innerText();
      };
      const said = await create();
      await shot(tab, `made-${what.replaceAll(" ", "-")}`);
      const wrong = [...includes(said, `The ${what} ${shown} `, "was created.", next), ...expect((await notice.getAttribute("role")) === "status", "it is no status")];
      wrong.push(...(await sound(tab, { keyboard: false })));
      if (again) wrong.push(...includes(await create(), `${again}.`));
      await notice.getByRole("link").click();
      if (to) {
        await tab.page.locator("h1", { hasText: shown }).waitFor();
        wrong.push(...expect(decodeURI(new URL(tab.page.url()).hash) === decodeURI(to), `the link leads to ${tab.page.url()}`));
        wrong.push(...expect((await notice.innerText()) === "", "the confirmation follows to other views"));
      } else {
        await tab.page.waitForFunction((name) => document.activeElement?.innerText === name && document.activeElement.closest("td"), shown);
        await notice.getByRole("button", { name: "Close the notice" }).click();
        wrong.push(...expect((await notice.innerText()) === "", "the confirmation cannot be closed"));
      }
      await broker.api("DELETE", path);
      // The open page of the object asks for it again.
      await tab.go("#/");
      return [...wrong, ...(await tab.faults()).filter((one) => !one.startsWith("answer: 404 GET"))];
    });
  }
  await check("unknown arguments and tags are warned about before they are sent, with what was probably meant", async () => {
    await tab.go("#/queues");
    await tab.page.getByRole("button", { name: "Create a queue" }).click();
    await dialog.getByLabel("Arguments").fill("x-mesage-ttl=5\nx-mine=1\nnote=2");
    await dialog.getByText("x-mesage-ttl is unknown and has no effect; did you mean x-message-ttl?", { exact: true }).waitFor();
    await dialog.getByText("x-mine is unknown and has no effect.", { exact: true }).waitFor();
    await shot(tab, "unknown-argument");
    const wrong = [...expect((await dialog.locator(".fault").count()) === 2, "a note of a client is warned about"), ...(await tab.axe())];
    await dialog.getByLabel("Arguments").fill("x-message-ttl=5");
    await dialog.locator(".fault").first().waitFor({ state: "detached" });
    await tab.page.keyboard.press("Escape");
    await tab.go("#/exchanges");
    await tab.page.getByRole("button", { name: "Create an exchange" }).click();
    await dialog.getByLabel("Arguments").fill("x-typo=5");
    await dialog.getByText("x-typo is unknown and has no effect.", { exact: true }).waitFor();
    await tab.page.keyboard.press("Escape");
    await tab.go("#/admin/policies");
    await tab.page.getByRole("button", { name: "Add a policy" }).first().click();
    await dialog.getByLabel("Definition").fill("max-lenght=5");
    await dialog.getByText("max-lenght is unknown; did you mean max-length?", { exact: true }).waitFor();
    await tab.page.keyboard.press("Escape");
    await tab.go("#/admin/users");
    await tab.page.getByRole("button", { name: "Add a user" }).click();
    await dialog.getByLabel("Tags").fill("monitoring, managemnt");
    await dialog.getByText("The tag managemnt has no effect; did you mean management?", { exact: true }).waitFor();
    wrong.push(...(await tab.axe()), ...expect((await dialog.locator(".fault").count()) === 1, "a known tag is warned about"));
    await dialog.getByLabel("Tags").fill("monitoring, management");
    await dialog.locator(".fault").first().waitFor({ state: "detached" });
    await tab.page.keyboard.press("Escape");
    return [...wrong, ...(await tab.faults())];
  });
}
