import { describe, expect, it } from "vitest";
import { type Binding, type Exchange, type Lookup, headersMatch, route, topicMatches } from "../src/lib/routing";

function world(exchanges: Exchange[], bindings: [string, string, string, Record<string, unknown>?][], queues: string[] = []): Lookup {
  return {
    exchange: async (name) => exchanges.find((exchange) => exchange.name === name),
    bindings: async (source) =>
      bindings
        .filter(([from]) => from === source)
        .map(([from, to, key, args]): Binding => ({ source: from, destination: to.slice(2), destination_type: to.startsWith("e:") ? "exchange" : "queue", routing_key: key, arguments: args ?? {} })),
    hasQueue: async (name) => queues.includes(name),
  };
}

const letter = (key: string, headers: Record<string, unknown> = {}) => ({ key, headers });

describe("topic patterns", () => {
  it.each([
    ["a.b", "a.b", true], ["a.*", "a.b", true], ["a.*", "a", false], ["a.*", "a.b.c", false], ["#", "", true], ["#", "a.b.c", true],
    ["a.#", "a", true], ["a.#", "a.b.c", true], ["#.c", "a.b.c", true], ["#.c", "c", true], ["#.c", "a.c.d", false], ["a.#.d", "a.d", true],
    ["a.#.d", "a.b.c.d", true], ["*.#", "", true], ["*.*", "a", false], ["#.#", "a", true], ["*", "a.b", false], ["", "", true], ["", "a", false], ["a..b", "a..b", true], ["a.*.b", "a..b", true],
  ])("%s and %s: %s", (pattern, key, matches) => {
    expect(topicMatches(pattern, key)).toBe(matches);
  });
});

describe("headers", () => {
  it("match all, or any", () => {
    const headers = { a: 1, b: "x", "x-c": true };
    expect(headersMatch({ a: 1, b: "x" }, headers)).toBe(true);
    expect(headersMatch({ a: 1, b: "y" }, headers)).toBe(false);
    expect(headersMatch({ "x-match": "any", a: 2, b: "x" }, headers)).toBe(true);
    expect(headersMatch({ "x-match": "any", a: 2 }, headers)).toBe(false);
    expect(headersMatch({ a: "1" }, headers)).toBe(false);
  });

  it("that begin with x- count only if the binding says so", () => {
    expect(headersMatch({ "x-c": false }, { a: 1 })).toBe(true);
    expect(headersMatch({ "x-match": "all-with-x", "x-c": false }, { "x-c": true })).toBe(false);
    expect(headersMatch({ "x-match": "any-with-x", "x-c": true }, { "x-c": true })).toBe(true);
  });

  it("need only be there if the binding has null", () => {
    expect(headersMatch({ a: null }, { a: 7 })).toBe(true);
    expect(headersMatch({ a: null }, {})).toBe(false);
    expect(headersMatch({ toString: null }, {})).toBe(false);
  });

  it("none: all of nothing matches, any of nothing does not", () => {
    expect(headersMatch({}, { a: 1 })).toBe(true);
    expect(headersMatch({ "x-match": "any" }, { a: 1 })).toBe(false);
  });
});

describe("a message", () => {
  it("to the default exchange goes to the queue of its key", async () => {
    const lookup = world([], [], ["q"]);
    expect((await route("", letter("q"), lookup)).queues).toEqual(["q"]);
    const nowhere = await route("", letter("r"), lookup);
    expect([nowhere.queues, nowhere.problems]).toEqual([[], ["There is no queue named 'r'."]]);
  });

  it("follows bindings of all kinds, and reaches each queue once", async () => {
    const lookup = world(
      [{ name: "d", type: "direct" }, { name: "t", type: "topic" }, { name: "f", type: "fanout" }, { name: "h", type: "headers" }],
      [["d", "e:t", "k.1"], ["d", "e:f", "k.1"], ["d", "q:no", "other"], ["t", "q:a", "k.*"], ["t", "q:b", "x.#"], ["f", "q:a", ""], ["f", "e:h", ""], ["h", "q:c", "", { n: 1 }]],
    );
    expect((await route("d", letter("k.1", { n: 1 }), lookup)).queues).toEqual(["a", "c"]);
    expect((await route("d", letter("k.1"), lookup)).queues).toEqual(["a"]);
    expect((await route("d", letter("zzz"), lookup)).steps).toEqual([]);
  });

  it("ends in a circle of exchanges", async () => {
    const lookup = world([{ name: "x", type: "fanout" }, { name: "y", type: "fanout" }], [["x", "e:y", ""], ["y", "e:x", ""], ["y", "q:q", ""]]);
    expect((await route("x", letter(""), lookup)).queues).toEqual(["q"]);
  });

  it("that no binding takes goes to the alternate exchange", async () => {
    const lookup = world([{ name: "x", type: "direct", alternate: "spare" }, { name: "spare", type: "fanout" }], [["x", "q:a", "k"], ["spare", "q:lost", ""]]);
    expect((await route("x", letter("k"), lookup)).queues).toEqual(["a"]);
    expect((await route("x", letter("else"), lookup)).queues).toEqual(["lost"]);
  });

  it("of which the broker chooses the way has possible queues", async () => {
    const lookup = world([{ name: "x", type: "x-consistent-hash" }], [["x", "q:a", "1"], ["x", "q:b", "1"]]);
    const { queues, possible } = await route("x", letter("k"), lookup);
    expect([queues, possible]).toEqual([[], ["a", "b"]]);
    const one = await route("x", letter("k"), world([{ name: "x", type: "x-random" }], [["x", "q:a", ""]]));
    expect(one.queues).toEqual(["a"]);
  });

  it("to an exchange that is missing says so", async () => {
    expect((await route("nope", letter("k"), world([], []))).problems).toEqual(["There is no exchange named 'nope'."]);
  });
});
