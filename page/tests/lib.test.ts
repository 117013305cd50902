import { describe, expect, it } from "vitest";
import { path, tagNeeded } from "../src/lib/api";
import { command, inVhost, quote } from "../src/lib/command";
import { deaths, redriven } from "../src/lib/deaths";
import { withoutEffect } from "../src/lib/names";
import { href, parse } from "../src/lib/place";
import { differences, rateOf, samples } from "../src/lib/rates";
import { body, moveBody, moveOptions, options } from "../src/lib/redrive";
import { toneOf } from "../src/lib/causes";
import operations from "../../docs/operations/slow.md?raw";

describe("commands", () => {
  it("are quoted for a shell", () => {
    expect(quote("a/b_c-1.d")).toBe("a/b_c-1.d");
    expect(quote("two words")).toBe("'two words'");
    expect(quote("it's $HOME")).toBe("'it'\\''s $HOME'");
    expect(quote("")).toBe("''");
    expect(quote("a\nb\u001b'\\")).toBe("$'a\\x0ab\\x1b\\'\\\\'");
    expect(quote("\u202e")).toBe("$'\\xe2\\x80\\xae'");
    for (const hidden of ["\u00ad", "\u061c", "\u180e", "\ufffb"]) expect(quote(`a${hidden}`)).toMatch(/^\$'a(\\x[0-9a-f]{2})+'$/);
  });

  it("keep names apart from options", () => {
    expect(command(["delete", "queue"], inVhost("/"), ["q"])).toBe("sluice delete queue q");
    expect(command(["delete", "queue"], inVhost("a b"), ["--if-empty"])).toBe("sluice delete queue --vhost 'a b' -- --if-empty");
    expect(command(["declare", "binding"], [["--key", "-k"], ["--to-exchange"]], ["x", "y"])).toBe("sluice declare binding --key=-k --to-exchange x y");
    expect(command(["declare", "binding"], [["--key", ""]], ["x", "y"])).toBe("sluice declare binding --key '' x y");
  });
});

describe("addresses", () => {
  it("hold any name", () => {
    for (const name of ["a/b", "%2F", "<script>", "?x=1&y#z", "\u0001\n", "🐇", " "]) {
      expect(parse(href(["queues", "/", name])).path).toEqual(["queues", "/", name]);
      expect(parse(href(["why"], { name })).query).toEqual({ name });
      expect(decodeURIComponent(path("queues", "/", name).split("/").at(-1) ?? "")).toBe(name);
    }
    expect(path("queues", "/", "a/b")).toBe("/api/queues/%2F/a%2Fb");
  });

  it("that somebody typed do no harm", () => {
    expect(parse("#/queues/%zz/100%").path).toEqual(["queues", "%zz", "100%"]);
    expect(parse("")).toEqual({ path: [], query: {} });
  });
});

describe("rates", () => {
  it("are differences of counters, and are unknown where a counter has started again", () => {
    const points = [[0, 10], [1000, 10], [3000, 30], [4000, 5], [5000, 7]].map(([time, value]) => ({ time: time ?? 0, value: value ?? 0 }));
    expect(differences(points).map(({ time, value }) => [time, value])).toEqual([[1000, 0], [3000, 10], [4000, null], [5000, 2]]);
    expect(differences([{ time: 0, value: null }, { time: 1000, value: 9 }])).toEqual([{ time: 1000, value: null }]);
    expect(differences(points.slice(0, 1))).toEqual([]);
    expect(differences([])).toEqual([]);
  });

  it("are unknown until the broker has two samples", () => {
    expect(rateOf({ publish_details: { rate: 0 }, rates_are_known: false }, "publish")).toBeUndefined();
    expect(rateOf({ publish_details: { rate: 0 } }, "publish")).toBe(0);
    expect(rateOf({}, "publish")).toBeUndefined();
  });

  it("come from the samples of the broker, which sends the newest first", () => {
    const row = { publish: 5, publish_details: { rate: 2.5, samples: [{ sample: 5, timestamp: 2000 }, { sample: 1, timestamp: 1000 }] } };
    expect(samples(row, "publish")).toEqual([{ time: 1000, value: 1 }, { time: 2000, value: 5 }]);
    expect(samples({ publish_details: { rate: 0, samples: [] } }, "publish")).toEqual([]);
    expect(samples({ publish_details: { rate: 1 } }, "publish")).toEqual([]);
    expect(samples(undefined, "publish")).toEqual([]);
  });

  it("ignore what is no number", () => {
    expect(samples({ publish_details: { samples: [{ sample: "7", timestamp: 1 }, { sample: null, timestamp: 2 }, { sample: 7 }] } }, "publish")).toEqual([]);
  });
});

it("an unknown cause is a warning", () => {
  expect(toneOf("moving")).toBe("good");
  expect(toneOf("toString")).toBe("warn");
});

it("every cause that is no warning is one of the manual", () => {
  const table = operations.split("| cause | what it means | what to do |")[1]?.split("\n\n")[0] ?? "";
  const causes = [...table.matchAll(/^\| `(\w+)` \|/gm)].map(([, cause]) => cause ?? "");
  expect(causes.length).toBeGreaterThan(20);
  expect(causes.filter((cause) => toneOf(cause) !== "warn").length).toBe(13);
});

describe("a dead letter", () => {
  it("says where it died, why and how often", () => {
    const annotations = { "x-opt-deaths": [{ queue: "work", reason: "expired", count: 2, "first-time": 1, "last-time": 5, exchange: "", "routing-keys": ["work"] }] };
    const death = { queue: "work", why: "its time to live ended", count: 2, at: 5, exchange: "", keys: ["work"] };
    expect(deaths({ message_annotations: annotations })).toEqual([death]);
    const headers = { "x-death": [{ queue: "work", reason: "odd", count: 1, time: 5, exchange: "x", "routing-keys": ["a", "b"] }] };
    expect(deaths({ properties: { headers } })).toEqual([{ queue: "work", why: "odd", count: 1, at: 5000, exchange: "x", keys: ["a", "b"] }]);
  });

  it("may say anything else", () => {
    for (const odd of [undefined, 7, "x", {}, [7], [null], [{ queue: 1 }], [["a"]]]) {
      expect(deaths({ message_annotations: { "x-opt-deaths": odd }, properties: { headers: odd } })).toEqual([]);
      expect(redriven({ message_annotations: odd, properties: { headers: { "x-opt-sluice-redriven": odd === 7 ? "7" : odd } } })).toBe(0);
    }
    expect(deaths({ properties: { headers: { "x-death": [{ queue: "q", time: "soon", "routing-keys": 7 }] } } })).toEqual([{ queue: "q", why: "", count: undefined, at: undefined, exchange: "", keys: [] }]);
  });
});

describe("a redrive", () => {
  const none = { number: "", reason: "", queue: "", older: "", rate: "", header: "", to: "queue", other: "" };

  it("is counted in an annotation or a header", () => {
    expect(redriven({ message_annotations: { "x-opt-sluice-redriven": 2 } })).toBe(2);
    expect(redriven({ properties: { headers: { "x-opt-sluice-redriven": 3 } } })).toBe(3);
  });

  it("has the same filters as the command", () => {
    expect([body(none), options(none)]).toEqual([{}, []]);
    const all = { number: "3", reason: "expired", queue: "q", older: "2h", rate: "9", header: "a=b=c", to: "exchange", other: "r" };
    expect(body(all, 5)).toEqual({ count: 3, reason: "expired", queue: "q", older_than: 7200, rate: 9, headers: { a: "b=c" }, to: "exchange", died_until: 5 });
    expect(options(all)).toEqual([["--count", "3"], ["--reason", "expired"], ["--from-queue", "q"], ["--older-than", "2h"], ["--rate", "9"], ["--header", "a=b=c"], ["--to", "exchange"]]);
    expect(body({ ...none, to: "other", other: "r" })).toEqual({ to_queue: "r" });
    expect(options({ ...none, to: "other" })).toEqual([["--to-queue", "OTHER_QUEUE"]]);
  });
});

describe("a move", () => {
  const none = { to: "queue", target: "r", key: "", number: "", header: "", rate: "" };

  it("has the same filters as the command", () => {
    expect([moveBody(none), moveOptions(none)]).toEqual([{ to_queue: "r" }, [["--to-queue", "r"]]]);
    expect(moveOptions({ ...none, target: "" })).toEqual([["--to-queue", "OTHER_QUEUE"]]);
    const all = { to: "exchange", target: "x", key: "k", number: "3", header: "country=DE", rate: "9" };
    expect(moveBody(all, 5)).toEqual({ to_exchange: "x", routing_key: "k", count: 3, headers: { country: "DE" }, rate: 9, until_seq: 5 });
    expect(moveOptions(all)).toEqual([["--to-exchange", "x"], ["--key", "k"], ["--count", "3"], ["--header", "country=DE"], ["--rate", "9"]]);
    // A key without an exchange belongs to nothing.
    expect([moveBody({ ...none, key: "k" }), moveOptions({ ...none, key: "k" })]).toEqual([{ to_queue: "r" }, [["--to-queue", "r"]]]);
  });
});

describe("arguments that the broker does not know", () => {
  it("are shown with the name that was probably meant", () => {
    expect(withoutEffect(null)).toBe("has no effect");
    expect(withoutEffect("x-max-length")).toBe("has no effect; did you mean x-max-length?");
  });
});

describe("reasons of the broker", () => {
  it("name the tag that a user needs", () => {
    expect(tagNeeded("Not administrator user")).toBe("This needs the tag administrator.");
    expect(tagNeeded("Not monitor user")).toBe("This needs the tag monitoring.");
    expect(tagNeeded("access to queue 'q' in vhost '/' refused for user 'u'")).toBeUndefined();
    expect(tagNeeded(undefined)).toBeUndefined();
  });
});
