import { describe, expect, it } from "vitest";
import type { MessageRow } from "../src/lib/names";
import { type Found, search, shows, withText } from "../src/lib/search";

const packed = (octets: number[], more: Partial<MessageRow> = {}): MessageRow => ({ payload: btoa(String.fromCharCode(...octets)), payload_encoding: "base64", ...more });

describe("a text is found in a body as it is shown", () => {
  const messagePack = packed([0x82, 0xa2, 0x69, 0x64, 0xcd, 0x12, 0x67, 0xa4, 0x70, 0x61, 0x69, 0x64, 0xc3]);
  const cbor = packed([0xa2, 0x62, 0x69, 0x64, 0x19, 0x12, 0x67, 0x64, 0x70, 0x61, 0x69, 0x64, 0xf5]);
  const value = packed([0x00, 0x53, 0x77, 0xc1, 0x0f, 0x04, 0xa1, 2, 0x69, 0x64, 0x60, 0x12, 0x67, 0xa1, 4, 0x70, 0x61, 0x69, 0x64, 0x41], { properties: { type: "amqp-1.0" } });
  const json: MessageRow = { payload: '{"id":4711,"paid":true}', payload_encoding: "string" };

  it("of every kind", () => {
    for (const row of [messagePack, cbor, value, json]) {
      for (const text of ["4711", "TRUE", "paid"]) expect([text, shows(row, text)]).toEqual([text, true]);
      for (const text of ["4712", "false", "unpaid"]) expect([text, shows(row, text)]).toEqual([text, false]);
    }
  });

  it("over lines and spaces, which the page has added", () => {
    for (const row of [messagePack, cbor, json]) {
      for (const text of ['"id": 4711', '"id":4711', '"id": 4711,\n  "paid": true']) expect([text, shows(row, text)]).toEqual([text, true]);
      expect(shows(row, '"paid": 4711')).toBe(false);
    }
  });

  it("or in the octets, if they are nothing else", () => {
    const row = packed([0x1f, 0x8b, 0x08, 0xff]);
    expect(["1f 8b", "1F8B", "8b", "f8", "8b 1f", "8"].map((text) => shows(row, text))).toEqual([true, true, true, false, false, false]);
  });
});

describe("a search", () => {
  /** Answers as the broker does. Each message has the number of its position, in CBOR, and is no text. */
  function broker(count: number, part: number, padding = 0) {
    const asked: string[] = [];
    const ask = (from: string): Promise<Found> => {
      asked.push(from);
      const begin = Number(from);
      const end = Math.min(begin + part, count + 1);
      const messages = Array.from({ length: end - begin }, (_, i) => packed([0x9f, 0x19, (begin + i) >> 8, (begin + i) & 255, 0xff], { position: begin + i, undecoded: true }));
      if (padding) messages.forEach((row) => (row.payload = "A".repeat(padding)));
      return Promise.resolve({ messages, scanned: end - begin, next: end > count ? null : end });
    };
    return { ask, asked };
  }

  it("goes on until it has found enough, or is at the end", async () => {
    const { ask, asked } = broker(1000, 100);
    const first = await search(ask, "1", "5", 30);
    expect([first.messages.length >= 30, first.scanned, first.next, asked.length]).toEqual([true, 200, 201, 2]);
    expect(first.messages.every((row) => String(row.position).includes("5"))).toBe(true);
    const rest = await search(ask, "201", "777", 10);
    expect([rest.messages.map((row) => row.position), rest.scanned, rest.next]).toEqual([[777], 800, null]);
  });

  it("stops after so many messages and so many octets", async () => {
    const many = await search(broker(60_000, 100).ask, "1", "none", 10);
    expect([many.messages.length, many.scanned, many.next]).toEqual([0, 10_000, 10_001]);
    const large = broker(60_000, 100, 87_384);
    const stopped = await search(large.ask, "1", "none", 10);
    expect([stopped.scanned, large.asked.length]).toEqual([400, 4]);
  });

  it("shows what the broker has found as it is", async () => {
    const found: Found = { messages: [{ position: 1, payload: "a", payload_encoding: "string" }], scanned: 1, next: null };
    expect(await search(() => Promise.resolve(found), "1", "country=DE", 10)).toEqual(found);
  });

  it("asks for bodies to decode only if there is a text", () => {
    expect([withText(""), Object.keys(withText("x"))]).toEqual([{}, ["filter", "undecoded"]]);
  });
});
