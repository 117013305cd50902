/** Finds messages by a text: in their body, keys, properties and headers. */
import { recognise } from "./body";
import type { MessageRow } from "./names";

/** The fields of a row that say where the message is, and not what it is. */
const PLACE = new Set(["position", "offset", "seq", "delivery_count", "acquired_count", "message_count", "payload_bytes", "payload_encoding", "redelivered"]);

/** Writes all values of an object as `name=value`, one a line. */
function lines(name: string, value: unknown, into: string[]): void {
  if (Array.isArray(value)) value.forEach((item) => lines(name, item, into));
  else if (typeof value === "object" && value !== null) Object.entries(value).forEach(([key, item]) => lines(key, item, into));
  else into.push(`${name}=${String(value)}`);
}

/** Returns whether the text is part of the message. Upper and lower case are the same. `a=b` finds a property `a` that begins with `b`. */
export function matches(row: MessageRow, text: string): boolean {
  const all: string[] = [];
  for (const [field, value] of Object.entries(row)) if (!PLACE.has(field)) lines(field, value, all);
  // The payload as the broker sends it may be base64, and what is shown may be set in lines.
  all.push(recognise(row).text);
  return all.join("\n").toLowerCase().includes(text.toLowerCase());
}
