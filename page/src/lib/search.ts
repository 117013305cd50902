/**
 * Looks for a text in the bodies of messages, as the page shows them.
 *
 * The broker looks for it in the octets of a body. Bodies that are no text, such as MessagePack, it sends along: they are decoded and
 * filtered here.
 */
import { digits, read } from "./body";
import type { MessageRow } from "./names";

/** The messages with such bodies that are asked for at once. As many matches more than wanted may be shown. */
const UNDECODED = 100;

/** The messages after which a search stops, to be continued by the user. The broker stops there, too. */
const SCANNED_MAX = 10_000;

/** The characters of bodies after which a search stops, so that it does not load for minutes over a slow line. */
const LOADED_MAX = 32 * 1024 * 1024;

/** What was found, how many messages were looked at for it, and where to go on. */
export interface Found {
  messages: MessageRow[];
  scanned: number;
  next: number | null;
}

/** Returns the parameters of a request for messages with this text. */
export function withText(text: string): Record<string, string> {
  return text === "" ? {} : { filter: text, undecoded: String(UNDECODED) };
}

/** Searches from a place until `wanted` messages are found. `ask` sends the request to the broker that begins there. */
export async function search(ask: (from: string) => Promise<Found>, from: string, text: string, wanted: number): Promise<Found> {
  const found: Found = await ask(from);
  let loaded = size(found.messages);
  found.messages = found.messages.filter((row) => matches(row, text));
  while (found.next !== null && found.messages.length < wanted && found.scanned < SCANNED_MAX && loaded < LOADED_MAX) {
    const more = await ask(String(found.next));
    loaded += size(more.messages);
    found.messages.push(...more.messages.filter((row) => matches(row, text)));
    found.scanned += more.scanned;
    found.next = more.next;
  }
  return found;
}

/** Returns true if the broker has found the text in the message, or if the page shows it. */
function matches(row: MessageRow, text: string): boolean {
  return !row.undecoded || shows(row, text);
}

/** Returns true if the body, as it is shown, has a text. Case does not count, nor do the spaces and lines between values or digits. */
export function shows(row: MessageRow, text: string): boolean {
  const body = read(row);
  const wanted = text.toLowerCase();
  const packed = withoutSpace(wanted);
  if ("octets" in body) return /^([0-9a-f]{2})+$/.test(packed) && digits(body.octets).includes(packed.replaceAll(/..(?=.)/g, "$& "));
  const shown = body.text.toLowerCase();
  return shown.includes(wanted) || (body.kind !== "text" && withoutSpace(shown).includes(packed));
}

function withoutSpace(text: string): string {
  return text.replaceAll(/\s+/g, "");
}

function size(rows: MessageRow[]): number {
  return rows.reduce((sum, row) => sum + (row.payload?.length ?? 0), 0);
}
