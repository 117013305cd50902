import { describe, expect, it } from "vitest";
import { decode64, hex, pretty, recognise } from "../src/lib/body";

const base64 = (...octets: number[]) => btoa(String.fromCharCode(...octets));

describe("a body", () => {
  it("that is JSON is indented", () => {
    expect(recognise({ payload: '{"a":[1,{}],"b":"x"}', payload_encoding: "string" })).toEqual({ kind: "JSON", text: '{\n  "a": [\n    1,\n    {}\n  ],\n  "b": "x"\n}' });
    expect(recognise({ payload: "7", payload_encoding: "string", properties: { content_type: "application/json" } }).kind).toBe("JSON");
  });

  it("keeps the digits of its numbers", () => {
    expect(pretty('{"id":12345678901234567890,"x":1.0}')).toBe('{\n  "id": 12345678901234567890,\n  "x": 1.0\n}');
    expect(pretty('["a{b","c\\"]"]')).toBe('[\n  "a{b",\n  "c\\"]"\n]');
    expect(pretty("[ ]")).toMatch(/^\[\s*\]$/);
  });

  it("that only looks like JSON is text", () => {
    expect(recognise({ payload: "{not json", payload_encoding: "string" }).kind).toBe("text");
    expect(recognise({ payload: "{", payload_encoding: "string", properties: { content_type: "application/json" } }).note).toMatch(/says JSON/);
  });

  it("that is text stays text, whatever is in it", () => {
    expect(recognise({ payload: "<b>hi</b>", payload_encoding: "string" })).toEqual({ kind: "text", text: "<b>hi</b>" });
    expect(recognise({ payload: "", payload_encoding: "string" }).kind).toBe("empty");
    expect(recognise({}).kind).toBe("empty");
  });

  it("that is binary is shown as octets", () => {
    const shown = recognise({ payload: base64(0x1f, 0x8b, 0x08, 0xff), payload_encoding: "base64" });
    expect([shown.kind, shown.note]).toEqual(["hex", "gzip"]);
    expect(shown.text).toBe(`00000000  1f 8b 08 ff              ${" ".repeat(23)}  ....`);
    expect(recognise({ payload: "\u0000\u0001\u0002ab", payload_encoding: "string" }).kind).toBe("hex");
  });

  it("says how much of it is shown", () => {
    expect(recognise({ payload: "äb", payload_encoding: "string", payload_bytes: 5000 }).note).toBe("the first 3 of 5,000 octets");
    expect(recognise({ payload: "äb", payload_encoding: "string", payload_bytes: 3 }).note).toBeUndefined();
  });

  it("of AMQP 1.0 is decoded", () => {
    const properties = { type: "amqp-1.0" };
    const value = (...octets: number[]) => recognise({ payload: base64(0x00, 0x53, 0x77, ...octets), payload_encoding: "base64", properties });
    expect(value(0xa1, 2, 0x68, 0x69)).toEqual({ kind: "AMQP value", text: '"hi"' });
    expect(value(0xc1, 5, 2, 0xa3, 1, 0x6b, 0x41)).toEqual({ kind: "AMQP value", text: "{k: true}" });
    expect(value(0xc0, 4, 2, 0x54, 0xff, 0x40).text).toBe("[-1, null]");
    expect(value(0xe0, 4, 2, 0x50, 1, 2).text).toBe("[1, 2]");
    expect(value(0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff).text).toBe("18446744073709551615");
  });

  it("of AMQP 1.0 that is broken or hostile is shown as octets", () => {
    const properties = { type: "amqp-1.0" };
    for (const octets of [[0xa1, 9, 0x68], [0xd0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff], [0xff], Array<number>(200).fill(0x00), [0xf0, 0, 0, 0, 5, 0x7f, 0xff, 0xff, 0xff, 0x40]]) {
      expect(recognise({ payload: base64(...octets), payload_encoding: "base64", properties }).kind).toBe("hex");
    }
  });
});

it("octets are shown in rows of sixteen", () => {
  const rows = hex(Uint8Array.from({ length: 17 }, (_, i) => 0x41 + i)).split("\n");
  expect(rows).toEqual(["00000000  41 42 43 44 45 46 47 48  49 4a 4b 4c 4d 4e 4f 50  ABCDEFGHIJKLMNOP", `00000010  51${" ".repeat(21)}  ${" ".repeat(23)}  Q`]);
});

it("what is not base64 is shown as it is", () => {
  expect(decode64("%%%")).toEqual(new TextEncoder().encode("%%%"));
});
