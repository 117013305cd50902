import { describe, expect, it } from "vitest";
import { nearest } from "../src/lib/nearest";
import { tagFaults, tagList } from "../src/lib/tags";

describe("names that were probably meant", () => {
  it("are the closest ones, by the rule of the broker", () => {
    const known = ["x-max-length", "x-max-age", "x-expires"];
    expect(nearest("x-max-lenght", known)).toBe("x-max-length");
    expect(nearest("x-expire", known)).toBe("x-expires");
    expect(nearest("x-max-aged", known)).toBe("x-max-age");
    expect(nearest("x-note", known)).toBeNull();
    expect(nearest("x".repeat(65), known)).toBeNull();
  });

  it("are those of tags, also of their beginnings", () => {
    expect(tagFaults(tagList("managemnt, admin,monitoring, team"))).toEqual([
      "The tag managemnt has no effect; did you mean management?",
      "The tag admin has no effect; did you mean administrator?",
      "The tag team has no effect",
    ]);
    expect(tagFaults(tagList("constructor"))).toEqual(["The tag constructor has no effect"]);
  });
});
