// Charts, and numbers that nobody knows or that the user may not see.
import { check, expect, hash, includes, shot, sound, until } from "./checks.mjs";

/** Writes down each text that a canvas draws, with its place. For the browser. */
function noteTexts() {
  globalThis.drawn = [];
  const draw = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...more) {
    const { a, d, e, f } = this.getTransform();
    const width = this.measureText(text).width * a;
    const left = a * x + e - (this.textAlign === "center" ? width / 2 : this.textAlign === "right" ? width : 0);
    globalThis.drawn.push({ text, left, right: left + width, y: d * y + f, centred: this.textAlign === "center", canvas: this.canvas.width });
    return draw.call(this, text, x, y, ...more);
  };
}

/** Charts of all kinds. `open` opens a tab. */
export async function charts(broker, tab, open) {
  const consumer = (session) => session.outgoing_links.find((link) => link.queue_name?.startsWith("flow"));
  const [connections, channels, sessions] = await Promise.all(["connections", "channels", "sessions"].map((list) => broker.api("GET", `/api/${list}`)));
  const views = {
    "the overview": ["#/", 2],
    "a queue": [hash("queues", "/", "flow-1"), 2],
    "an exchange": [hash("exchanges", "/", "shop"), 1],
    "a connection": [hash("connections", connections.find((row) => row.protocol === "AMQP 1-0").name), 1],
    "a channel": [hash("channels", channels[0].name), 1],
    "a session": [hash("sessions", sessions.find(consumer).name), 1],
    "the nodes": ["#/admin/nodes", 3],
  };
  await check("every chart tells its values under the mouse and with the arrow keys", async () => {
    const wrong = [];
    for (const [name, [view, count]] of Object.entries(views)) {
      await tab.go(view);
      const plots = tab.page.locator(".plot");
      await plots.nth(count - 1).waitFor();
      for (let i = 0; i < (await plots.count()); i++) {
        const said = () => plots.nth(i).getAttribute("aria-valuetext");
        // A sample that the broker has taken since makes the line longer.
        await until(`${name}: a value`, async () => name === "an exchange" || name === "a channel" || /\d/.test((await said()).replace(/^now:/, "")));
        const [now, last] = [await said(), Number(await plots.nth(i).getAttribute("aria-valuemax"))];
        if (!now.startsWith("now: ") || /NaN|undefined/.test(now)) wrong.push(`${name}: it says ${now}`);
        if (last < 1) continue;
        await plots.nth(i).focus();
        await tab.page.keyboard.press("End");
        const newest = await said();
        await tab.page.keyboard.press("ArrowLeft");
        const before = await said();
        if (!/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d: /.test(newest) || newest === before) wrong.push(`${name}: the keys lead from ${newest} to ${before}`);
        const shown = await plots.nth(i).locator("xpath=..").locator(".under").innerText();
        wrong.push(...includes(shown, before.slice(11, 19)));
        await tab.page.keyboard.press("Escape");
        if (!(await said()).startsWith("now: ")) wrong.push(`${name}: Escape does not lead back to now`);
      }
      if ((await plots.count()) !== count) wrong.push(`${name} has ${await plots.count()} charts`);
      const alarming = await tab.page.locator(".fill.bad").count();
      wrong.push(...expect(alarming === 0, `${name}: ${alarming} bars are red, and nothing is wrong`));
    }
    await tab.go("#/");
    const plot = tab.page.locator(".plot").first();
    await until("a line", async () => Number(await plot.getAttribute("aria-valuemax")) > 1);
    const { x, y, width, height } = await plot.boundingBox();
    await tab.page.mouse.move(x + width - 40, y + height / 2);
    await tab.page.locator(".under").getByText("Published").waitFor();
    await shot(tab, "under-the-mouse");
    const text = await tab.page.locator(".under").innerText();
    await tab.page.mouse.move(0, 0);
    await tab.page.locator(".under").waitFor({ state: "detached" });
    return [...wrong, ...expect(/^\d\d:\d\d:\d\d\nPublished/.test(text), `under the mouse is ${text}`), ...(await sound(tab, { keyboard: false }))];
  });
  await check("what nobody knows is a gap in a chart, and never a zero", async () => {
    const end = Math.floor(Date.now() / 5000) * 5000;
    // The counter starts again in between, and there are two samples before that.
    const samples = [40, 20, 5, 300, 200].map((sample, i) => ({ sample, timestamp: end - i * 5000 }));
    const overview = (url) => url.pathname === "/api/overview";
    await tab.page.route(overview, async (route) => {
      const response = await route.fetch();
      const body = await response.json();
      body.message_stats.publish_details.samples = samples;
      for (const field of ["confirm", "deliver_get", "ack"]) body.message_stats[`${field}_details`].samples = samples.slice(0, 1);
      await route.fulfill({ response, json: body });
    });
    await tab.go("#/queues");
    await tab.go("#/");
    const plot = tab.page.locator(".plot").first();
    await until("the answer", async () => (await plot.getAttribute("aria-valuemax")) === "3");
    await plot.focus();
    const said = [];
    for (const key of ["Home", "ArrowRight", "ArrowRight", "ArrowRight"]) {
      await tab.page.keyboard.press(key);
      said.push((await plot.getAttribute("aria-valuetext")).slice(21));
    }
    const legend = await tab.page.locator(".legend").first().innerText();
    await tab.page.keyboard.press("Escape");
    await tab.page.unroute(overview);
    const rest = ", Confirmed unknown, Delivered unknown, Acknowledged unknown";
    return [...expect(said.join(" | ") === ["20/s", "unknown", "3/s", "4/s"].map((one) => `Published ${one}${rest}`).join(" | "), `the chart has ${said.join(" | ")}`), ...includes(legend.replaceAll("\n", " "), "Published 4/s", "Confirmed –"), ...(await tab.faults())];
  });
  await check("a rate needs two samples, and is a dash before", async () => {
    await broker.api("PUT", "/api/queues/%2F/rate.new", {});
    await tab.go("#/queues?name=rate.new&cols=name,publish");
    const first = await tab.page.locator("main tbody td.number").innerText();
    await until("a rate", async () => (await tab.page.locator("main tbody td.number").innerText()) === "0/s");
    await broker.api("DELETE", "/api/queues/%2F/rate.new");
    return [...expect(first === "–", `before there are samples, it is ${first}`), ...(await tab.faults())];
  });
  await check("the labels of charts do not overlap on a phone, and begin with 0", async () => {
    const small = await open({ width: 390, height: 844 });
    await small.context.addInitScript(noteTexts);
    await small.login("guest", "guest");
    const wrong = [];
    for (const view of ["#/", "#/admin/nodes", views["a connection"][0]]) {
      await small.go(view);
      const spans = small.page.getByRole("group", { name: "Time span" }).getByRole("button");
      for (const span of view === "#/" ? await spans.all() : [spans.first()]) {
        await small.page.evaluate(() => (globalThis.drawn = []));
        await span.click();
        await small.settled();
        await until("labels", async () => (await small.page.evaluate(() => globalThis.drawn.length)) > 4);
        const drawn = await small.page.evaluate(() => globalThis.drawn);
        const label = `${view} ${await span.innerText()}`;
        const times = drawn.filter((one) => one.centred);
        for (const [i, one] of times.entries()) {
          const next = times[i + 1];
          if (next && next.y === one.y && next.left > one.left && next.left < one.right + 3) wrong.push(`${label}: ${one.text} meets ${next.text}`);
        }
        for (const one of drawn) if (one.left < 0 || one.right > one.canvas) wrong.push(`${label}: ${one.text} is cut off`);
        if (!drawn.some((one) => !one.centred && /^0(\D|$)/.test(one.text))) wrong.push(`${label}: no axis begins with 0: ${drawn.map((one) => one.text)}`);
      }
      wrong.push(...(await small.tooWide()));
    }
    await shot(small, "phone-chart");
    await small.close();
    return wrong;
  });
}
