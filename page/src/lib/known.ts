/** The arguments of queues and exchanges and the keys of policies, as the broker tells them. */
import { withoutEffect } from "./names";
import { nearest } from "./nearest";
import type { Pairs } from "./pairs";
import { isNumber } from "./text";

export interface Known {
  name: string;
  kind: "number" | "text" | "exchange" | "span" | "boolean" | "word";
  about: string;
  /** The types of queues or exchanges that take it. A key of policies without types is for exchanges. */
  types: string[];
  operator: boolean;
  least?: number;
  most?: number;
  words?: string[];
}

export interface KnownLists {
  queue_arguments: Known[];
  exchange_arguments: Known[];
  policy_keys: Known[];
}

/** What a policy may apply to, with the types of its queues; exchanges have none. */
const APPLIES: Record<string, string[]> = { all: ["classic", "quorum", "stream"], queues: ["classic", "quorum", "stream"], classic_queues: ["classic"], quorum_queues: ["quorum"], streams: ["stream"], exchanges: [] };

/** Returns what a policy, or an operator policy, may apply to. */
export function targets(operator: boolean): string[] {
  return Object.keys(APPLIES).filter((one) => !operator || one !== "all");
}

/** Returns the keys that have an effect in a policy with this target. */
export function keysFor(keys: Known[], apply: string, operator: boolean): Known[] {
  const types = APPLIES[apply] ?? [];
  return keys.filter((key) => {
    if (operator && !key.operator) return false;
    const isOfExchanges = key.types.length === 0;
    return isOfExchanges ? apply === "all" || apply === "exchanges" : key.types.some((type) => types.includes(type));
  });
}

/** The words for the values of an argument. */
export function valuesOf(known: Known): string {
  // The broker's largest number is not one that people need to know.
  const bound = (value: number | undefined) => (isNumber(value) && Math.abs(value) < Number.MAX_SAFE_INTEGER ? value.toLocaleString("en-US") : undefined);
  const [least, most] = [bound(known.least), bound(known.most)];
  switch (known.kind) {
    case "number": return least !== undefined && most !== undefined ? `a whole number from ${least} to ${most}` : least !== undefined ? `a whole number, ${least} or more` : "a whole number";
    case "boolean": return "true or false";
    case "word": return (known.words ?? []).join(", ");
    case "exchange": return "the name of an exchange";
    case "span": return "a number and one of Y, M, D, h, m, s";
    case "text": return "a text";
  }
}

/** Returns what is wrong with a value, or undefined. The broker checks it again. */
export function wrong(known: Known, value: string): string | undefined {
  const isGood = {
    number: () => /^-?\d+$/.test(value) && Number(value) >= (known.least ?? Number.NEGATIVE_INFINITY) && Number(value) <= (known.most ?? Number.POSITIVE_INFINITY),
    boolean: () => value === "true" || value === "false",
    word: () => (known.words ?? []).includes(value),
    span: () => /^\d+[YMDhms]$/.test(value),
    exchange: () => true,
    text: () => true,
  }[known.kind]();
  return isGood ? undefined : `${known.name} needs ${valuesOf(known)}`;
}

/** Returns the line `name=value` with the value in its type: a text that reads as a number or as JSON gets quotes. */
export function line(known: Known, value: string): string {
  const isText = known.kind !== "number" && known.kind !== "boolean";
  let other = false;
  try {
    JSON.parse(value);
    other = true;
  } catch {
    // It is a text as it is.
  }
  return `${known.name}=${isText && (other || value !== value.trim()) ? JSON.stringify(value) : value}`;
}

/** Returns lines with one more, which replaces one of the same name. */
export function withLine(lines: string, added: string): string {
  const name = added.slice(0, added.indexOf("="));
  const others = lines.split("\n").filter((one) => one.trim() !== "" && one.slice(0, one.indexOf("=")).trim() !== name);
  return [...others, added].join("\n");
}

/** Arguments with this prefix are meant for the broker. Others may be notes of clients. */
const PREFIX = "x-";

/**
 * Returns what is wrong with typed pairs, without a full stop: values, names that are for other types, and names that are unknown. The
 * broker refuses unknown names if `refused`; else they have no effect.
 */
export function faults(given: Pairs | undefined, all: Known[], fitting: Known[], refused = false): string[] {
  return [...(given ?? new Map<string, string>())].flatMap(([name, value]) => {
    const known = all.find((one) => one.name === name);
    if (known === undefined) {
      // Before the tables are there, every name is unknown.
      if (all.length === 0 || (!refused && !name.startsWith(PREFIX))) return [];
      const meant = nearest(name, all.map((one) => one.name));
      if (!refused) return `${name} is unknown and ${withoutEffect(meant)}`;
      return meant === null ? `${name} is unknown` : `${name} is unknown; did you mean ${meant}?`;
    }
    if (!fitting.includes(known)) return [`${name} is for ${known.types.join(" and ") || "exchanges"} only`];
    return wrong(known, value.replace(/^"(.*)"$/s, "$1")) ?? [];
  });
}
