// Fingers and phones: how large and how far apart the targets are, and that no field makes a phone zoom.
import { check, expect, hash, shot } from "./checks.mjs";

/** The least height of a control, and of a link in text (WCAG 2.2: 2.5.5 and 2.5.8), in CSS pixels. */
const CONTROL_PX = 44;
const LINK_PX = 24;

/** The least distance of a button that destroys something to the next one, in CSS pixels. */
const APART_PX = 16;

/** The least size of letters in a field. iPhones zoom in on smaller ones, in CSS pixels. */
const FIELD_PX = 16;

/** Returns what a finger would miss or hit by mistake in what is drawn now. */
async function targets(page) {
  return page.evaluate(({ CONTROL_PX, LINK_PX, APART_PX, FIELD_PX }) => {
    const drawn = (one) => one.checkVisibility({ visibilityProperty: true }) && one.getBoundingClientRect().width > 1 && !one.closest(".skip, .hidden");
    const all = (selector) => [...document.querySelectorAll(selector)].filter(drawn);
    const named = (one) => one.outerHTML.slice(0, 110);
    const wrong = [];
    const least = (one, px, of = one) => {
      const { height } = of.getBoundingClientRect();
      if (height < px - 0.5) wrong.push(`${height.toFixed(1)} px high, not ${px}: ${named(one)}`);
    };
    for (const one of all("button, select, textarea, summary, input:not([type=checkbox], [type=radio])")) least(one, CONTROL_PX);
    for (const one of all("input:is([type=checkbox], [type=radio])")) least(one, CONTROL_PX, one.closest("label") ?? one);
    for (const one of all("a[href]")) least(one, one.closest("nav, table, .actions, .crumbs, header") || one.matches(".tile, .why, .button") ? CONTROL_PX : LINK_PX);
    for (const one of all("input:not([type=checkbox], [type=radio]), select, textarea")) {
      const size = Number.parseFloat(getComputedStyle(one).fontSize);
      if (size < FIELD_PX) wrong.push(`letters of ${size} px: ${named(one)}`);
    }
    for (const one of all("button.danger")) {
      const a = one.getBoundingClientRect();
      const group = one.closest(".buttons, .actions, fieldset, header, td");
      for (const other of group ? [...group.querySelectorAll("button, a[href], summary")].filter((next) => next !== one && next.closest("dialog") === one.closest("dialog") && drawn(next)) : []) {
        const b = other.getBoundingClientRect();
        const apart = Math.hypot(Math.max(0, a.left - b.right, b.left - a.right), Math.max(0, a.top - b.bottom, b.top - a.bottom));
        if (apart < APART_PX - 0.5) wrong.push(`${apart.toFixed(1)} px beside ${named(one)}: ${named(other)}`);
      }
    }
    return wrong;
  }, { CONTROL_PX, LINK_PX, APART_PX, FIELD_PX });
}

/** Opens what unfolds. Windows are not part of it. */
async function unfold(page, which = "details") {
  await page.locator(which).evaluateAll((all) => all.forEach((one) => (one.open = true)));
}

/** `views` are the addresses of all views. */
export async function touch(open, views) {
  const phone = await open({ width: 390, height: 844 });
  await check("the login has targets for fingers", async () => {
    await phone.page.goto(phone.url);
    await phone.page.getByLabel("User").waitFor();
    return targets(phone.page);
  });
  await phone.login("guest", "guest");
  for (const view of views) {
    await check(`${view} has targets for fingers`, async () => {
      await phone.go(view);
      await phone.page.waitForTimeout(100);
      const wrong = await targets(phone.page);
      await unfold(phone.page);
      await shot(phone, `touch${decodeURIComponent(view).replaceAll(/[^\w.]+/g, "-").slice(0, 80)}`);
      const unfolded = (await targets(phone.page)).filter((one) => !wrong.includes(one));
      return [...wrong, ...unfolded, ...(await phone.tooWide()), ...(await phone.faults())];
    });
  }
  await check("windows have targets for fingers, and what deletes is not beside what cancels", async () => {
    const wrong = [];
    await phone.page.reload();
    for (const [view, names] of [[hash("queues", "/", "invoices"), ["Publish", "Get", "Move", "Redrive", "Purge", "Delete", "Trace"]], ["#/queues", ["Create a queue"]], ["#/exchanges", ["Create an exchange"]], ["#/admin/users", ["Add a user", "Set permissions"]], ["#/admin/policies", ["Add a policy"]], ["#/admin/vhosts", ["Add a virtual host"]], ["#/admin/definitions", ["Export", "Import"]]]) {
      await phone.go(view);
      for (const name of names) {
        // The choices close with each window.
        await unfold(phone.page, "main .listbar details:has(button.danger)");
        await phone.page.getByRole("button", { name, exact: true }).first().click();
        await phone.page.getByRole("dialog").waitFor();
        await unfold(phone.page, "dialog details");
        await shot(phone, `touch-window-${name.replaceAll(" ", "-")}`);
        wrong.push(...(await targets(phone.page)).map((one) => `${name}: ${one}`));
        await phone.page.keyboard.press("Escape");
        await phone.page.getByRole("dialog").waitFor({ state: "detached" });
      }
    }
    return [...wrong, ...(await phone.faults())];
  });
  await phone.close();
  await check("a wide window that is touched has the same targets", async () => {
    const tablet = await open({ width: 1180, height: 820, touch: true });
    await tablet.login("guest", "guest");
    const wrong = [];
    for (const view of ["#/", "#/queues", hash("queues", "/", "invoices"), "#/admin/users"]) {
      await tablet.go(view);
      await shot(tablet, `touch-tablet${view.slice(1).replaceAll(/\W+/g, "-")}`);
      wrong.push(...(await targets(tablet.page)).map((one) => `${view}: ${one}`), ...(await tablet.tooWide()));
    }
    wrong.push(...(await tablet.faults()));
    await tablet.close();
    return wrong;
  });
  await check("a mouse has small targets, so that more fits into a window", async () => {
    const desk = await open();
    await desk.login("guest", "guest");
    await desk.go("#/queues");
    const { height } = await desk.page.getByRole("button", { name: "Create a queue" }).boundingBox();
    const wrong = [...expect(height < 36, `a button is ${height} px high`), ...(await desk.faults())];
    await desk.close();
    return wrong;
  });
}
