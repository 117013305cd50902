/** Reads lines of `name=value`: arguments, headers and definitions. The request and the command are made from the same pairs. */
import { ApiError } from "./api";

/** The values by name, as they were typed. */
export type Pairs = Map<string, string>;

/**
 * Parses one `name=value` a line. Spaces around names and values, and empty lines, have no meaning. A name that occurs twice
 * has its last value.
 *
 * Throws an `ApiError` that shows the line if it has no name or no `=`.
 */
export function pairs(text: string): Pairs {
  const found: Pairs = new Map();
  for (const line of text.split("\n").map((part) => part.trim()).filter((part) => part !== "")) {
    const equals = line.indexOf("=");
    if (equals <= 0) throw new ApiError(400, "page", `'${line}' is not name=value`);
    found.set(line.slice(0, equals).trim(), line.slice(equals + 1).trim());
  }
  return found;
}

/** Returns the pairs of a text that may be half typed, or undefined if it does not parse. Then there is no command to show. */
export function typedPairs(text: string): Pairs | undefined {
  try {
    return pairs(text);
  } catch {
    return undefined;
  }
}

/** Returns the object of a request. A value is JSON, or a string if it is not valid JSON. `sluice` reads its options so, too. */
export function toObject(found: Pairs): Record<string, unknown> {
  return Object.fromEntries([...found].map(([name, value]) => [name, jsonOrText(value)]));
}

/** Returns the options of a command, one for each pair. */
export function toOptions(option: string, found: Pairs): [string, string][] {
  return [...found].map(([name, value]) => [option, `${name}=${value}`]);
}

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
