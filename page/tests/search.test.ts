import { expect, it } from "vitest";
import { matches } from "../src/lib/search";

const order = {
  position: 7,
  exchange: "shop",
  routing_key: "order.paid",
  payload: '{"customer":"Ada","lines":[{"item":"rope"}]}',
  payload_encoding: "string",
  payload_bytes: 44,
  properties: { content_type: "application/json", headers: { country: "DE", "x-death": [{ queue: "late", count: 2 }] } },
};

it("a message is found by its body, key, exchange, properties and headers", () => {
  for (const text of ["ROPE", '"customer": "Ada"', "order.p", "routing_key=order", "exchange=shop", "country=de", "application/json", "queue=late", "count=2"]) {
    expect(matches(order, text), text).toBe(true);
  }
  for (const text of ["country=FR", "sail", "position=7", "string"]) expect(matches(order, text), text).toBe(false);
});

it("a body of octets is found as what is shown of it", () => {
  // {"late": true} in MessagePack.
  const packed = { payload: "gaRsYXRlww==", payload_encoding: "base64", payload_bytes: 7 };
  expect(matches(packed, '"late": true')).toBe(true);
  expect(matches(packed, "early")).toBe(false);
});
