import { describe, expect, it } from "vitest";
import { pairs, toObject, toOptions, typedPairs } from "../src/lib/pairs";

describe("lines of name=value", () => {
  const text = "a=1\nb = x=y \r\n\n  c=true\nd=\ne=\"7\"\nf=[1]\n__proto__=1";

  it("make the object of a request", () => {
    const wanted = { a: 1, b: "x=y", c: true, d: "", e: "7", f: [1] };
    expect(JSON.stringify(toObject(pairs(text)))).toBe(`${JSON.stringify(wanted).slice(0, -1)},"__proto__":1}`);
    expect(toObject(pairs(""))).toEqual({});
  });

  it("make the options of a command with the same names and values", () => {
    const found = pairs(text);
    expect(toOptions("--argument", found)).toEqual(["a=1", "b=x=y", "c=true", "d=", 'e="7"', "f=[1]", "__proto__=1"].map((pair) => ["--argument", pair]));
    // `sluice` parses its options as one line each.
    const read = pairs(toOptions("--header", found).map(([, pair]) => pair).join("\n"));
    expect(toObject(read)).toEqual(toObject(found));
  });

  it("have the last value of a name that occurs twice", () => {
    const found = pairs("a=1\nb=2\na=3");
    expect(toObject(found)).toEqual({ a: 3, b: 2 });
    expect(toOptions("--header", found)).toEqual([["--header", "a=3"], ["--header", "b=2"]]);
  });

  it.each(["d", "=1", " = 1", "a=1\nmax-len"])("that do not parse are refused: %j", (bad) => {
    expect(() => pairs(bad)).toThrow("is not name=value");
    expect(typedPairs(bad)).toBeUndefined();
  });

  it("may be half typed", () => {
    expect(typedPairs("a=")).toEqual(new Map([["a", ""]]));
    expect(typedPairs("")).toEqual(new Map());
  });
});
