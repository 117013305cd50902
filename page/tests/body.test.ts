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

  it("of AMQP 1.0 has one constructor for all items of an array", () => {
    const value = (...octets: number[]) => recognise({ payload: base64(0x00, 0x53, 0x77, ...octets), payload_encoding: "base64", properties: { type: "amqp-1.0" } });
    const array = (count: number, ...octets: number[]) => value(0xe0, octets.length + 1, count, ...octets);
    expect(array(2, 0x00, 0xa3, 1, 0x78, 0x50, 1, 2)).toEqual({ kind: "AMQP value", text: "[@x 1, @x 2]" });
    expect(array(2, 0x00, 0x53, 7, 0x00, 0x53, 8, 0xa1, 1, 0x61, 1, 0x62).text).toBe('[@7 @8 "a", @7 @8 "b"]');
    expect(array(2, 0xe0, 3, 1, 0x50, 1, 3, 1, 0x50, 2).text).toBe("[[1], [2]]");
    expect(array(2, 0x00, 0x53, 7, 0x45).text).toBe("[@7 [], @7 []]");
    // An array without items has a constructor, too.
    expect(array(0, 0x00, 0x53, 7, 0x50).text).toBe("[]");
  });

  it("of AMQP 1.0 whose descriptor would be shown too often is shown as octets", () => {
    const long = 20_000;
    const octets = [0x00, 0xb3, 0, 0, long >> 8, long & 0xff, ...Array<number>(long).fill(0x78), 0x43];
    const body = (count: number) => [0xf0, 0, 0, (octets.length + 4) >> 8, (octets.length + 4) & 0xff, 0, 0, count >> 8, count & 0xff, ...octets];
    const kind = (count: number) => recognise({ payload: base64(...body(count)), payload_encoding: "base64", properties: { type: "amqp-1.0" } }).kind;
    expect([kind(10), kind(20_000)]).toEqual(["AMQP value", "hex"]);
  });

  it("of AMQP 1.0 that is broken or hostile is shown as octets", () => {
    const properties = { type: "amqp-1.0" };
    for (const octets of [[0xa1, 9, 0x68], [0xd0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff], [0xff], Array<number>(200).fill(0x00), [0xf0, 0, 0, 0, 5, 0x7f, 0xff, 0xff, 0xff, 0x40]]) {
      expect(recognise({ payload: base64(...octets), payload_encoding: "base64", properties }).kind).toBe("hex");
    }
  });
});

describe("a body of MessagePack or CBOR", () => {
  const shown = (octets: number[], content_type?: string) => recognise({ payload: base64(...octets), payload_encoding: "base64", properties: { content_type } });

  it("is shown like JSON", () => {
    const pack = [0x82, 0xa1, 0x61, 0x93, 0xff, 0xc3, 0xc0, 0xa1, 0x62, 0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    expect(shown(pack)).toEqual({ kind: "MessagePack", text: '{\n  "a": [\n    -1,\n    true,\n    null\n  ],\n  "b": 18446744073709551615\n}' });
    const concise = [0xbf, 0x61, 0x61, 0x9f, 0x20, 0xf5, 0xff, 0x61, 0x62, 0xf9, 0x3e, 0x00, 0x61, 0x63, 0xc1, 0x1a, 0x51, 0x4b, 0x67, 0xb0, 0xff];
    expect(shown(concise)).toEqual({ kind: "CBOR", text: '{\n  "a": [\n    -1,\n    true\n  ],\n  "b": 1.5,\n  "c": 1(1363896240)\n}' });
    expect(shown([0x81, 0xa1, 0x61, 0xc4, 2, 0, 0xff]).text).toBe("{\n  \"a\": h'00ff'\n}");
    expect(shown([0x91, 0xd6, 0xff, 0, 0, 0, 1]).text).toBe("[\n  ext(-1, h'00000001')\n]");
    expect(shown([0x92, 0xcb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 0xca, 0x40, 0, 0, 0]).text).toBe("[\n  1.5,\n  2.0\n]");
  });

  it("is recognised by its content type, and otherwise only if it is a map or a list", () => {
    expect(shown([0xd9, 0x02, 0xc3, 0xa4], "application/msgpack")).toEqual({ kind: "MessagePack", text: '"ä"' });
    expect(shown([0xc3])).toMatchObject({ kind: "hex" });
    expect(shown([0xf9, 0x7c, 0x00], "application/cbor")).toEqual({ kind: "CBOR", text: "Infinity" });
    expect(shown([0x80])).toEqual({ kind: "MessagePack", text: "{}", note: "it could be CBOR as well" });
    expect(shown([0x80], "application/cbor")).toEqual({ kind: "CBOR", text: "[]" });
  });

  it("that is broken or hostile is shown as octets", () => {
    for (const octets of [[0x82, 0xa1, 0x61], [0xdd, 0xff, 0xff, 0xff, 0xff, 0xc0], [0x81, 0xa2, 0xff, 0xfe, 1], [0xc1], Array<number>(300).fill(0x91), Array<number>(300).fill(0x9f), [0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], [0xa1, 0x61], [0x9f, 0x01], [0xbf, 0x01, 0xff]]) {
      expect(shown(octets).kind).toBe("hex");
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
