import { describe, expect, it } from "vitest";
import { bytes, count, duration, percent, pieces, plural, rate, setBytes, short, visible } from "../src/lib/text";

describe("names", () => {
  it("are shown as they are if every character can be seen", () => {
    for (const name of ["orders", "<script>alert(1)</script>", "a/b c", "größe 🐇", "👩‍🚀".replace("\u200d", "")]) {
      expect(pieces(name)).toEqual([{ text: name, escaped: false }]);
      expect(visible(name)).toBe(name);
    }
  });

  it("have their hidden characters escaped", () => {
    expect(visible("a\u0000b\u001b[31m\n\u007f\u0085")).toBe("a\\u{0}b\\u{1b}[31m\\n\\u{7f}\\u{85}");
    // A name that reads backwards could pass for another.
    expect(visible("\u202egnp.exe\u200b\ufeff")).toBe("\\u{202e}gnp.exe\\u{200b}\\u{feff}");
    expect(pieces("a\tb")).toEqual([{ text: "a", escaped: false }, { text: "\\t", escaped: true }, { text: "b", escaped: false }]);
  });
});

describe("numbers", () => {
  it("have separators, and a dash if there is none", () => {
    expect([count(1234567), count(0), count(undefined), count(null), count("1")]).toEqual(["1,234,567", "0", "–", "–", "–"]);
    expect([plural(1, "queue"), plural(0, "queue"), plural(1200, "queue")]).toEqual(["1 queue", "0 queues", "1,200 queues"]);
  });

  it("have units", () => {
    expect([setBytes(50_000_000), setBytes(1_048_576), setBytes(999), setBytes(0), setBytes(1001), setBytes(null)]).toEqual(["50 MB (47.7 MiB)", "1 MiB", "999 B", "0 B", "1001 B", "–"]);
    expect([bytes(0), bytes(1023), bytes(1536), bytes(3 * 2 ** 30), bytes(null)]).toEqual(["0 B", "1023 B", "1.5 KiB", "3 GiB", "–"]);
    expect([rate(0), rate(0.25), rate(12.34), rate(12345.6), rate(undefined)]).toEqual(["0/s", "0.25/s", "12.3/s", "12,346/s", "–"]);
    expect([percent(0), percent(0.4166), percent(1), percent(undefined)]).toEqual(["0 %", "42 %", "100 %", "–"]);
    expect([short(999), short(1500), short(2e6), short(0.5)]).toEqual(["999", "1.5k", "2M", "0.5"]);
    expect([duration(0), duration(61_000), duration(3_600_000), duration(90_061_000), duration(-1)]).toEqual(["0 s", "1 min 1 s", "1 h", "1 d 1 h", "–"]);
  });
});
