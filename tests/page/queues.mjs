// The views of queues and of their messages.
import { check, expect, hash, includes, options, picture, shot, sound, until } from "./checks.mjs";

/** The overview, the list of queues, and what people do on the page of a queue. */
export async function queues(broker, tab) {
  await check("the overview shows rates, totals and the node", async () => {
    await tab.page.locator("header.top select").nth(1).selectOption("2");
    await tab.go("#/");
    await until("a rate", async () => /Published [1-9]/.test(await tab.text()));
    const text = await tab.text();
    // The lines of a picture should be longer than a dot.
    if (options.docs || options.shots) await tab.page.waitForTimeout(4_500);
    await shot(tab, "overview");
    await picture(tab, "overview");
    return [...includes(text, "File descriptors", "amqp", "What memory is used for", "Confirmed"), ...includes(await tab.text("header.top"), "No alarms"), ...(await sound(tab))];
  });
  await check("the list of queues shows rates and states", async () => {
    await tab.go("#/queues?sort=message_stats.publish&desc=1");
    await until("rates", async () => /[1-9]\d*(\.\d+)?\/s/.test(await tab.text()));
    await shot(tab, "queues");
    return sound(tab);
  });
  await check("a queue says why nothing moves, and who the active consumer is", async () => {
    await tab.go(hash("queues", "/", "orders"));
    await tab.page.getByText("the active one").waitFor();
    const text = await tab.text();
    await shot(tab, "queue-consumers");
    return [...includes(text, "queue empty", "waits for its turn", "x-single-active-consumer"), ...(await sound(tab))];
  });
  await check("messages are looked at without a change, and bodies are shown as what they are", async () => {
    await tab.go(hash("queues", "/", "invoices"));
    await tab.page.getByRole("button", { name: "Look", exact: true }).click();
    const lines = tab.page.locator("table.messages tr.line");
    await lines.nth(3).waitFor();
    const closed = await tab.page.locator("article.message").count();
    const heights = await lines.evaluateAll((all) => all.map((one) => one.getBoundingClientRect().height));
    const first = await lines.first().innerText();
    const dense = await sound(tab, { keyboard: false });
    await lines.last().scrollIntoViewIfNeeded();
    await shot(tab, "messages-closed");
    await picture(tab, "messages");
    await lines.first().getByRole("button", { name: "Open the message 1" }).focus();
    await tab.page.keyboard.press("Enter");
    await tab.page.locator("article.message").waitFor();
    await tab.page.keyboard.press("Enter");
    await tab.page.locator("article.message").waitFor({ state: "detached" });
    await lines.first().click();
    await tab.page.locator("article.message").waitFor();
    await tab.page.getByRole("button", { name: "Open all" }).click();
    await tab.page.locator("article.message").nth(3).waitFor();
    const text = (await tab.page.locator("article.message").allInnerTexts()).join("\n");
    const after = await broker.api("GET", "/api/queues/%2F/invoices");
    await tab.page.locator("article.message").first().scrollIntoViewIfNeeded();
    await shot(tab, "messages");
    return [
      ...dense,
      ...expect(closed === 0 && Math.max(...heights) < 40, `${closed} messages are open, and lines have the heights ${heights}`),
      ...includes(first, '"invoice": 12345678901234567890', "JSON"),
      ...includes(text, '"invoice": 12345678901234567890', '"price": 9.50', "JSON", "attached.\\u{7}", "text", "The body is empty.", "hex", "gzip", "1f 8b 08 00", "<img src=x onerror=alert(1)>"),
      ...expect(after.messages_ready === 4 && after.message_stats.redeliver === 0, `the queue changed: ${JSON.stringify(after)}`),
      ...(await sound(tab)),
    ];
  });
  await check("a dead letter says where it died and why", async () => {
    await tab.go(hash("queues", "/", "dead letters"));
    await tab.page.getByRole("button", { name: "Look", exact: true }).click();
    await tab.page.getByText("Died in the queue").waitFor();
    const text = await tab.page.locator("article.message").innerText();
    await tab.page.locator("article.message").scrollIntoViewIfNeeded();
    await shot(tab, "dead-letter");
    await picture(tab, "dead-letter", tab.page.locator("article.message"));
    return [...includes(text, "Died in the queue late: its time to live ended", "MessagePack", '"late": true'), ...(await sound(tab, { keyboard: false }))];
  });
  await check("a dead letter goes back with one click, and says so when it has died again", async () => {
    await tab.page.getByRole("button", { name: "Send it back to late" }).click();
    await tab.page.getByText("The message went back to the queue late.").waitFor();
    const wrong = await sound(tab, { keyboard: false });
    // It expires there at once.
    await until("the message is a dead letter again", async () => (await broker.api("GET", "/api/queues/%2F/dead%20letters")).messages_ready === 1);
    await tab.page.getByRole("button", { name: "Look", exact: true }).click();
    await tab.page.getByText("It was sent back to where it died 1 time.").waitFor();
    await shot(tab, "redriven");
    return [...includes(await tab.page.locator("article.message").innerText(), "2 times"), ...wrong];
  });
  await check("dead letters are redriven by a filter, with the command that does the same", async () => {
    await tab.page.getByRole("button", { name: "Redrive", exact: true }).click();
    const dialog = tab.page.getByRole("dialog");
    await dialog.getByLabel("They died because").selectOption("rejected");
    await dialog.getByLabel("They died at least this long ago").fill("1h");
    await dialog.getByText("sluice redrive --reason rejected --older-than 1h 'dead letters'").waitFor();
    await picture(tab, "redrive", dialog);
    await dialog.getByRole("button", { name: "Redrive", exact: true }).click();
    await dialog.getByText("0 messages went back, 1 stayed. Ready in this queue: 1.").waitFor();
    await shot(tab, "redrive");
    const wrong = await sound(tab, { keyboard: false });
    await dialog.getByLabel("They go to").selectOption("other");
    await dialog.getByLabel("The queue that gets them").fill("none");
    await dialog.getByLabel("They died because").selectOption("");
    await dialog.getByLabel("They died at least this long ago").fill("");
    await dialog.getByRole("button", { name: "Redrive", exact: true }).click();
    await dialog.getByText("no queue 'none'").waitFor();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    // The refusal is what the test has asked for.
    tab.refused.length = 0;
    return wrong;
  });
  await check("messages are moved by a header, or one of them, with the command that does the same", async () => {
    for (const country of ["DE", "FR"]) await broker.command("publish", "amq.default", country, "--key", "load.062", "--header", `country=${country}`);
    await tab.go(hash("queues", "/", "load.062"));
    await tab.page.getByRole("button", { name: "Move", exact: true }).click();
    const dialog = tab.page.getByRole("dialog");
    await dialog.getByLabel("The queue that gets them").fill("load.063");
    await dialog.getByLabel("They have the header").fill("country=FR");
    await dialog.getByText("sluice move --to-queue load.063 --header country=FR load.062").waitFor();
    await picture(tab, "move", dialog);
    await dialog.getByRole("button", { name: "Move", exact: true }).click();
    await dialog.getByText("1 message moved, 1 stayed. Ready in this queue: 1.").waitFor();
    await shot(tab, "move");
    const wrong = await sound(tab, { keyboard: false });
    await dialog.getByRole("button", { name: "Close" }).last().click();
    await tab.page.getByRole("button", { name: "Look", exact: true }).click();
    await tab.page.getByRole("button", { name: "Move this message" }).click();
    await dialog.getByLabel("They go to").selectOption("exchange");
    await dialog.getByLabel("The exchange that gets them").fill("amq.default");
    await dialog.getByLabel("Routing key").fill("load.063");
    await dialog.getByRole("button", { name: "Move", exact: true }).click();
    await tab.page.getByText("The message was moved to amq.default.").waitFor();
    await dialog.waitFor({ state: "detached" });
    const ready = (await broker.api("GET", "/api/queues/%2F/load.063")).messages_ready;
    await broker.api("DELETE", "/api/queues/%2F/load.063/contents");
    return [...wrong, ...expect(ready === 2, `${ready} messages were moved`)];
  });
  await check("messages are found by a text in their body, key, properties or headers", async () => {
    await tab.go(hash("queues", "/", "invoices"));
    const wrong = [];
    for (const [text, said] of [["ROPE", "1 of the 4 messages that were read matches."], ["country=de", "1 of the 4"], ["nowhere", "0 of the 4 messages that were read match."]]) {
      await tab.page.getByLabel("With this text").fill(text);
      await tab.page.getByRole("button", { name: "Look", exact: true }).click();
      await tab.page.getByText(said).waitFor();
      if ((await tab.page.locator("article.message").count()) !== Number(said[0])) wrong.push(`${text}: other messages are shown`);
    }
    await tab.page.getByLabel("With this text").fill("");
    await tab.page.getByLabel("Arrived until").fill("2020-01-01");
    await tab.page.getByRole("button", { name: "Look", exact: true }).click();
    await tab.page.getByText("0 of the 4 messages that were read match.").waitFor();
    await tab.page.getByLabel("Arrived since").fill("2020-01-01 00:00");
    await tab.page.getByLabel("Arrived until").fill("");
    await tab.page.getByRole("button", { name: "Look", exact: true }).click();
    await tab.page.getByText("4 of the 4 messages that were read match.").waitFor();
    wrong.push(...includes(await tab.page.locator(".command code").last().innerText(), "sluice browse --offset 1 --since ", "invoices"));
    await broker.command("send", "--count", "10030", "/queues/load.060", "hay");
    await broker.command("send", "/queues/load.060", "a needle");
    await tab.go(hash("queues", "/", "load.060"));
    await tab.page.getByLabel("With this text").fill("needle");
    await tab.page.getByRole("button", { name: "Look", exact: true }).click();
    await tab.page.getByText("0 of the 10,000 messages").waitFor();
    await tab.page.getByRole("button", { name: "Look further" }).click();
    await tab.page.getByText("1 of the 31 messages").waitFor();
    await shot(tab, "found");
    await tab.page.reload();
    await tab.page.getByText("1 of the 31 messages").waitFor();
    return [...wrong, ...includes(await tab.page.locator("article.message").innerText(), "Position 10,031", "a needle"), ...(await sound(tab, { keyboard: false }))];
  });
  await check("a text is found in bodies of every kind, as they are shown", async () => {
    const pack = [0x82, 0xa2, 0x69, 0x64, 0xcd, 0x12, 0x67, 0xa4, 0x70, 0x61, 0x69, 0x64, 0xc3];
    const cbor = [0xbf, 0x62, 0x69, 0x64, 0x19, 0x12, 0x68, 0x64, 0x70, 0x61, 0x69, 0x64, 0xf5, 0xff];
    const value = [0x00, 0x53, 0x77, 0xc1, 0x0f, 0x04, 0xa1, 2, 0x69, 0x64, 0x60, 0x12, 0x69, 0xa1, 4, 0x70, 0x61, 0x69, 0x64, 0x41];
    const bodies = { MessagePack: [pack, {}], CBOR: [cbor, {}], "AMQP value": [value, { type: "amqp-1.0" }], JSON: [Buffer.from('{"id":4714,"paid":true}'), {}], hex: [[0x1f, 0x8b, 0x08, 0x80], {}] };
    const publish = (octets, properties) => broker.api("POST", "/api/exchanges/%2F/amq.default/publish", { routing_key: "load.064", properties, payload: Buffer.from(octets).toString("base64"), payload_encoding: "base64" });
    for (const [octets, properties] of Object.values(bodies)) await publish(octets, properties);
    await tab.go(hash("queues", "/", "load.064"));
    const shown = () => tab.page.locator("table.messages tr.line td:nth-child(5)").allInnerTexts();
    for (const [text, kinds] of [["4711", ["MessagePack"]], ["4712", ["CBOR"]], ["4713", ["AMQP value"]], ["4714", ["JSON"]], ['"id": 4712,\n  "paid"', ["CBOR"]], ['"id": 4714', ["JSON"]], ["1f 8b", ["hex"]], ["TRUE", ["MessagePack", "CBOR", "AMQP value", "JSON"]], ["4715", []]]) {
      await tab.page.getByLabel("With this text").fill(text);
      await tab.page.getByRole("button", { name: "Look", exact: true }).click();
      await tab.page.getByText(`${kinds.length} of the 5 messages that were read`).waitFor();
      await until(`${text} in ${kinds.join()}`, async () => (await shown()).join() === kinds.join());
    }
    // The broker sends at most 100 bodies to decode in one answer, so the page asks again.
    for (let i = 0; i < 150; i++) await publish([0x81, 0xa1, 0x6e, 0xcd, 0x10, i], {});
    await publish([0x81, 0xa1, 0x6e, 0xcd, 0x30, 0x39], {});
    await tab.page.getByLabel("With this text").fill("12345");
    await tab.page.getByRole("button", { name: "Look", exact: true }).click();
    await tab.page.getByText("1 of the 156 messages that were read matches.").waitFor();
    await shot(tab, "found-packed");
    const wrong = includes(await tab.page.locator("article.message").innerText(), "Position 156", '"n": 12345');
    await broker.api("DELETE", "/api/queues/%2F/load.064/contents");
    return [...wrong, ...(await sound(tab, { keyboard: false }))];
  });
  await check("a queue is traced, its copies are looked at, and the trace is stopped", async () => {
    await tab.go(hash("queues", "/", "load.061"));
    await tab.page.getByRole("button", { name: "Trace", exact: true }).click();
    const dialog = tab.page.getByRole("dialog");
    const command = await dialog.locator(".command code").innerText();
    await dialog.getByLabel("For how many seconds").fill("600");
    await dialog.getByRole("button", { name: "Start" }).click();
    await dialog.getByText("The trace has begun.").waitFor();
    await dialog.getByText("1,000 messages are left.").waitFor();
    await broker.command("send", "/queues/load.061", "follow me");
    await shot(tab, "trace");
    const wrong = [...(await sound(tab, { keyboard: false })), ...includes(command, "sluice trace queue --for 30s --limit 1000 load.061")];
    await dialog.locator(".said a").click();
    await tab.page.getByRole("heading", { name: /^trace-/ }).waitFor();
    const name = await tab.page.getByRole("heading", { name: /^trace-/ }).innerText();
    await until("the copy", async () => (await broker.api("GET", `/api/queues/%2F/${name}`)).messages_ready === 1);
    await tab.settled();
    await tab.page.getByRole("button", { name: "Look", exact: true }).click();
    await tab.page.locator("article.message").waitFor();
    wrong.push(...includes(await tab.page.locator("article.message").innerText(), "publish.", "follow me", "load.061"));
    await tab.go(hash("queues", "/", "load.061"));
    await tab.page.getByRole("button", { name: "Trace", exact: true }).click();
    await dialog.getByRole("button", { name: "Stop it" }).click();
    await dialog.getByRole("button", { name: "Stop it" }).waitFor({ state: "detached" });
    const left = await broker.api("GET", "/api/traces");
    await tab.page.keyboard.press("Escape");
    await broker.api("DELETE", `/api/queues/%2F/${name}`);
    return [...wrong, ...expect(left.length === 0, `traces are left: ${JSON.stringify(left)}`), ...(await tab.faults())];
  });
  await check("a queue without a consumer says so, with what to do", async () => {
    await tab.go(hash("queues", "/", "invoices"));
    await tab.page.getByText("Start a consumer.").waitFor();
    await tab.page.evaluate(() => scrollTo(0, 0));
    await shot(tab, "queue");
    await picture(tab, "queue");
    return includes(await tab.text(), "no consumer", "Start a consumer.");
  });
  await check("a queue that refuses messages says how many, and others say nothing of it", async () => {
    const name = "refusing";
    await broker.api("PUT", `/api/queues/%2F/${name}`, { arguments: { "x-max-length": 1, "x-overflow": "reject-publish" } });
    const message = { routing_key: name, payload: "x", payload_encoding: "string", properties: {} };
    const publish = () => broker.api("POST", "/api/exchanges/%2F/amq.default/publish", message).catch(() => "refused");
    const answers = [await publish(), await publish(), await publish()];
    await tab.go(hash("queues", "/", name));
    const row = () => tab.page.locator("dl.numbers div").filter({ hasText: "Rejected publishes" });
    await row().waitFor();
    const shown = await row().innerText();
    await tab.go(hash("queues", "/", "invoices"));
    await tab.page.getByText("Start a consumer.").waitFor();
    const others = await row().count();
    await broker.api("DELETE", `/api/queues/%2F/${name}`);
    return [...includes(shown, "2"), ...expect(answers.filter((one) => one === "refused").length === 2, JSON.stringify(answers)), ...expect(others === 0, "a queue without such a limit has the line"), ...(await tab.faults())];
  });
  await check("a stream is browsed by offset", async () => {
    await tab.go(hash("queues", "/", "audit"));
    await tab.page.getByLabel("From").fill("12");
    await tab.page.getByRole("button", { name: "Look", exact: true }).click();
    await tab.page.getByRole("button", { name: "Open the message 19" }).waitFor();
    await tab.page.getByRole("button", { name: "Open the message 12" }).click();
    return [...includes(await tab.text(), "Offset 12", "an event of the stream"), ...(await sound(tab, { keyboard: false }))];
  });
  await check("a quorum queue shows its group", async () => {
    await tab.go(hash("queues", "/", "payments"));
    await tab.page.getByRole("heading", { name: "Raft group" }).waitFor();
    await tab.settled();
    await shot(tab, "quorum");
    return [...includes(await tab.text(), "voter", "x-delivery-limit"), ...(await sound(tab, { keyboard: false }))];
  });
  await check("publishing and getting show what the broker says", async () => {
    await tab.go(hash("queues", "/", "load.050"));
    const asked = async (button, confirm) => {
      await tab.page.getByRole("button", { name: button, exact: true }).first().click();
      const dialog = tab.page.getByRole("dialog");
      if (button === "Publish") await dialog.getByLabel("Body").fill("{}");
      const line = await dialog.locator(".command code").innerText();
      await dialog.getByRole("button", { name: confirm, exact: true }).click();
      const said = dialog.locator(".said, .problem");
      await said.waitFor();
      const text = await said.innerText();
      await tab.page.keyboard.press("Escape");
      return { text, ran: await broker.line(line) };
    };
    const [published, got] = [await asked("Publish", "Publish"), await asked("Get", "Get")];
    return [
      ...includes(published.text, "Published and routed."),
      ...includes(published.ran, "1 message published"),
      ...includes(got.text, "{}"),
      ...includes(got.ran, "load.050", "{}"),
    ];
  });
  await check("the command of a message publishes what the window publishes", async () => {
    await tab.go(hash("queues", "/", "load.051"));
    await tab.page.getByRole("button", { name: "Publish", exact: true }).first().click();
    const dialog = tab.page.getByRole("dialog");
    const lines = dialog.locator(".command code");
    await dialog.getByLabel("Body").fill("x");
    await dialog.getByLabel("Headers").fill("a = 1\nb=two words\na=3\nhalf");
    const half = await lines.count();
    await dialog.getByLabel("Headers").fill("");
    await dialog.getByLabel("Body").fill("-");
    const dash = await lines.count();
    await dialog.getByLabel("Body").fill("x");
    await dialog.getByLabel("Headers").fill("a = 1\nb=two words\na=3");
    const line = await lines.innerText();
    await dialog.getByRole("button", { name: "Publish", exact: true }).click();
    await dialog.getByText("Published and routed.").waitFor();
    await tab.page.keyboard.press("Escape");
    await broker.line(line);
    const got = await broker.api("POST", "/api/queues/%2F/load.051/get", { count: 2, ackmode: "ack_requeue_false", encoding: "auto" });
    const shown = got.map((row) => `${row.payload} ${JSON.stringify(Object.entries(row.properties.headers).sort())}`);
    const wanted = 'x [["a",3],["b","two words"]]';
    return [...expect(half === 0, "a half typed header has a command"), ...expect(dash === 0, "the body - has a command, which would read the standard input"), ...expect(shown.length === 2 && shown.every((one) => one === wanted), `published: ${shown.join(" and ")}`), ...(await tab.faults())];
  });
  await check("a purge names the queue and the number of messages", async () => {
    await broker.command("send", "--count", "3", "/queues/load.007", "x");
    await tab.go(hash("queues", "/", "load.007"));
    await tab.page.getByRole("button", { name: "Purge" }).click();
    const question = await tab.page.getByRole("dialog").innerText();
    await shot(tab, "purge");
    await tab.page.getByRole("button", { name: "Purge 3 messages" }).click();
    await until("the purge", async () => (await broker.api("GET", "/api/queues/%2F/load.007")).messages === 0);
    return [...includes(question, "load.007", "It has 3 messages"), ...(await tab.faults())];
  });
}
