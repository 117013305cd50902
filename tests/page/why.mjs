// The answers to "why does nothing move?" in the page, for each cause that a broker knows.
import { Broker } from "./broker.mjs";
import { Tab } from "./browser.mjs";
import { LONG, SCENES, SLOW, SLOW_SETTINGS, Stage } from "./causes.mjs";
import { check, expect, includes, options, picture, shot, sound, until } from "./checks.mjs";

/** The window of the pictures: narrow, because docs/why.md shows them in a table. */
const WINDOW = { width: 560, height: 900 };

/** Without `--docs`, only the scenes are played that need no slow disk. */
export async function causes(browser) {
  await play(browser, SCENES, {});
  await play(browser, LONG, SLOW_SETTINGS);
  if (options.docs) await play(browser, SLOW, SLOW_SETTINGS);
}

async function play(browser, scenes, settings) {
  const broker = await Broker.start(process.env.SLUICE_BIN, settings);
  const tab = await Tab.open(browser, broker.url, { fromDist: options.dist, ...WINDOW });
  const stage = new Stage(broker);
  try {
    await tab.login("guest", "guest");
    // A broker with an alarm answers the page's health check with 503.
    tab.expectRefusals = scenes !== SCENES;
    for (const [word, scene] of Object.entries(scenes)) {
      await check(`the page says why nothing moves: ${word}`, async () => {
        try {
          return await look(tab, stage, word, await scene(stage));
        } finally {
          // The page would ask again about an object that ends now.
          await tab.go("#/routing");
          stage.end();
        }
      });
    }
    if (scenes === SCENES) await walk(tab, stage);
  } finally {
    stage.end();
    await tab.close();
    await broker.stop();
  }
}

async function look(tab, stage, word, subject) {
  await until(`the broker answers ${word}`, async () => (await stage.explain(subject)).cause === word);
  await tab.go(`#/why?${new URLSearchParams({ vhost: "/", ...subject })}`);
  const answer = tab.page.locator(".panel", { has: tab.page.locator(".explain") });
  await answer.locator(".explain").first().waitFor();
  const wrong = includes(await answer.innerText(), "What to do:");
  const shown = await answer.locator(".explain .badge").first().innerText();
  await shot(tab, `why-${word}`);
  await picture(tab, `why/${word}`, answer);
  const asked = await tab.page.getByLabel("Name", { exact: true }).inputValue();
  // The page shows what the broker says, of all causes.
  const { causes } = await stage.explain(subject);
  const text = (await answer.innerText()).replaceAll(/\s+/g, " ");
  const unsaid = causes.filter((one) => one.cause === word).flatMap(({ meaning, advice }) => [meaning, ...advice]).filter((one) => !text.includes(one.replaceAll("`", "").replaceAll(/\s+/g, " ")));
  return [...wrong, ...expect(shown === word.replaceAll("_", " "), `the page says '${shown}'`), ...expect(unsaid.length === 0, `the page does not say '${unsaid[0]}'`), ...expect(asked === subject.name, `the form has the name '${asked}'`), ...(await tab.faults())];
}

/** A newcomer has a consumer that gets nothing, and knows its queue. */
async function walk(tab, stage) {
  await check("a newcomer finds out, by clicks alone, why a consumer gets nothing", async () => {
    await SCENES.unsettled_limit(stage);
    await tab.go("#/queues");
    await tab.page.getByRole("link", { name: "orders.prefetch", exact: true }).click();
    await tab.page.getByRole("heading", { name: "orders.prefetch" }).waitFor();
    const queue = tab.page.locator(".causes");
    await queue.getByText("It may hold").waitFor();
    const wrong = includes(await queue.innerText(), "unsettled limit", "the link warehouse");
    await tab.page.getByRole("link", { name: "Why does nothing move at the link warehouse?" }).click();
    await tab.page.getByRole("heading", { name: "Answer" }).waitFor();
    await tab.page.getByText("It gets more when it acknowledges some.").waitFor();
    return [...wrong, ...(await sound(tab))];
  });
}
