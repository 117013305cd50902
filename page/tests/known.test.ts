import { describe, expect, it } from "vitest";
import { type Known, faults, keysFor, line, valuesOf, withLine, wrong } from "../src/lib/known";

const known = (name: string, kind: Known["kind"], types: string[], more: Partial<Known> = {}): Known => ({ name, kind, about: "", types, operator: false, ...more });
const LENGTH = known("max-length", "number", ["classic", "quorum"], { least: 0, most: 2 ** 63, operator: true });
const OVERFLOW = known("overflow", "word", ["classic", "quorum"], { words: ["drop-head", "reject-publish"], operator: true });
const AGE = known("max-age", "span", ["stream"]);
const ALTERNATE = known("alternate-exchange", "exchange", []);
const KEY = known("dead-letter-routing-key", "text", ["classic", "quorum"]);
const ALL = [LENGTH, OVERFLOW, AGE, ALTERNATE, KEY];

describe("arguments that the broker knows", () => {
  it("are those of the objects that a policy is for", () => {
    const names = (apply: string, operator = false) => keysFor(ALL, apply, operator).map((one) => one.name);
    expect(names("all")).toEqual(ALL.map((one) => one.name));
    expect(names("streams")).toEqual(["max-age"]);
    expect(names("exchanges")).toEqual(["alternate-exchange"]);
    expect(names("queues", true)).toEqual(["max-length", "overflow"]);
  });

  it("have values that are checked", () => {
    expect(wrong(LENGTH, "7")).toBeUndefined();
    expect(wrong(LENGTH, "-1")).toBe("max-length needs a whole number, 0 or more");
    expect(wrong(LENGTH, "many")).toBeDefined();
    expect(wrong(OVERFLOW, "drop")).toBe("overflow needs drop-head, reject-publish");
    expect(wrong(AGE, "7D")).toBeUndefined();
    expect(wrong(AGE, "7 days")).toBeDefined();
    expect(valuesOf({ ...LENGTH, most: 255 })).toBe("a whole number from 0 to 255");
  });

  it("become lines whose texts stay texts", () => {
    expect(line(LENGTH, "7")).toBe("max-length=7");
    expect(line(KEY, "dead")).toBe("dead-letter-routing-key=dead");
    expect(line(KEY, "7")).toBe('dead-letter-routing-key="7"');
    expect(line(KEY, "true")).toBe('dead-letter-routing-key="true"');
    expect(line(KEY, "")).toBe("dead-letter-routing-key=");
    expect(withLine("a=1\nmax-length=5\n", "max-length=7")).toBe("a=1\nmax-length=7");
    expect(withLine("", "a=1")).toBe("a=1");
  });

  it("are named where they do not fit, and notes of clients are left alone", () => {
    const fitting = keysFor(ALL, "streams", false);
    expect(faults(new Map([["max-length", "7"], ["max-age", "soon"], ["note", "x"]]), ALL, fitting)).toEqual(["max-length is for classic and quorum only", "max-age needs a number and one of Y, M, D, h, m, s"]);
    expect(faults(undefined, ALL, fitting)).toEqual([]);
  });

  it("are suggested for names with their prefix that are unknown", () => {
    const all = [known("x-max-length", "number", ["classic"]), known("x-max-age", "span", ["stream"])];
    expect(faults(new Map([["x-max-lenght", "7"], ["x-note", "a"], ["note", "b"]]), all, all)).toEqual(["x-max-lenght is unknown and has no effect; did you mean x-max-length?", "x-note is unknown and has no effect"]);
    // The broker refuses a policy with an unknown key.
    expect(faults(new Map([["max-lenght", "7"], ["note", "b"]]), ALL, ALL, true)).toEqual(["max-lenght is unknown; did you mean max-length?", "note is unknown"]);
    // The tables have not arrived yet.
    expect(faults(new Map([["x-note", "a"]]), [], [])).toEqual([]);
  });
});
