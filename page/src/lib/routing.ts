/**
 * Computes where a message would go, from the bindings. It follows the broker: each exchange handles a message once, the
 * alternate exchange gets what no binding of an exchange takes, and a queue gets one copy.
 */

export interface Binding {
  source: string;
  destination: string;
  destination_type: string;
  routing_key: string;
  arguments: Record<string, unknown>;
}

export interface Exchange {
  name: string;
  type: string;
  /** The exchange that gets what cannot be routed, from the arguments or a policy. */
  alternate?: string;
}

interface Routable {
  key: string;
  headers: Record<string, unknown>;
}

/** What the broker knows; each answer is undefined if there is no such exchange. */
export interface Lookup {
  exchange(name: string): Promise<Exchange | undefined>;
  bindings(source: string): Promise<Binding[]>;
  hasQueue(name: string): Promise<boolean>;
}

/** One step of the way: from an exchange to a queue or exchange. */
export interface Step {
  exchange: string;
  to: string;
  toType: "queue" | "exchange";
  why: string;
  /** True if the broker chooses one of several such steps, so that this one is only possible. */
  maybe: boolean;
}

export interface Result {
  steps: Step[];
  /** The queues that get the message. */
  queues: string[];
  /** The queues of which the broker chooses. */
  possible: string[];
  problems: string[];
}

/** The most exchanges that are followed. A longer chain is cut, and the result says so. */
const EXCHANGES_MAX = 200;

export function topicMatches(pattern: string, key: string): boolean {
  const words = pattern.split(".");
  const parts = key.split(".");
  // reached[i] says whether the words so far match the first i parts.
  let reached = [true, ...parts.map(() => false)];
  for (const word of words) {
    const next = reached.map(() => false);
    let before = false;
    for (let i = 0; i <= parts.length; i++) {
      if (word === "#") {
        before ||= reached[i] === true;
        next[i] = before;
      } else if (i > 0) {
        next[i] = reached[i - 1] === true && (word === "*" || word === parts[i - 1]);
      }
    }
    reached = next;
  }
  return reached[parts.length] === true;
}

export function headersMatch(wanted: Record<string, unknown>, headers: Record<string, unknown>): boolean {
  const mode = wanted["x-match"];
  const withX = mode === "all-with-x" || mode === "any-with-x";
  const any = mode === "any" || mode === "any-with-x";
  const pairs = Object.entries(wanted).filter(([key]) => key !== "x-match" && (withX || !key.startsWith("x-")));
  // A null value in the binding requires only that the header is present.
  const has = ([key, value]: [string, unknown]) =>
    Object.hasOwn(headers, key) && (value === null || JSON.stringify(headers[key]) === JSON.stringify(value));
  return any ? pairs.some(has) : pairs.every(has);
}

/** Returns why a binding takes a message, or undefined if it does not. */
function takes(type: string, binding: Binding, routable: Routable): string | undefined {
  switch (type) {
    case "direct":
      return binding.routing_key === routable.key ? "the key is equal" : undefined;
    case "fanout":
    case "x-recent-history":
      return "every message";
    case "topic":
      return topicMatches(binding.routing_key, routable.key) ? `the key matches ${binding.routing_key || "the empty pattern"}` : undefined;
    case "headers":
      return headersMatch(binding.arguments, routable.headers) ? `the headers match (${String(binding.arguments["x-match"] ?? "all")})` : undefined;
    default:
      return `${type} chooses one`;
  }
}

const CERTAIN = new Set(["direct", "fanout", "topic", "headers", "x-recent-history"]);

export async function route(start: string, routable: Routable, lookup: Lookup): Promise<Result> {
  const result: Result = { steps: [], queues: [], possible: [], problems: [] };
  const reach = (queue: string, maybe: boolean) => {
    const list = maybe ? result.possible : result.queues;
    if (!list.includes(queue)) list.push(queue);
  };
  if (start === "") {
    if (await lookup.hasQueue(routable.key)) {
      reach(routable.key, false);
      result.steps.push({ exchange: "", to: routable.key, toType: "queue", why: "the key is the name of the queue", maybe: false });
    } else {
      result.problems.push(`There is no queue named '${routable.key}'.`);
    }
    return result;
  }
  const seen = new Set<string>();
  const todo = [{ name: start, maybe: false }];
  for (let next = todo.shift(); next; next = todo.shift()) {
    if (seen.has(next.name)) continue;
    if (seen.size >= EXCHANGES_MAX) {
      result.problems.push(`Only the first ${EXCHANGES_MAX} exchanges were followed.`);
      break;
    }
    seen.add(next.name);
    const exchange = await lookup.exchange(next.name);
    if (!exchange) {
      result.problems.push(`There is no exchange named '${next.name}'.`);
      continue;
    }
    const certain = CERTAIN.has(exchange.type);
    const taken = (await lookup.bindings(exchange.name)).flatMap((binding) => {
      const why = takes(exchange.type, binding, routable);
      return why === undefined ? [] : [{ binding, why }];
    });
    const maybe = next.maybe || (!certain && taken.length > 1);
    for (const { binding, why } of taken) {
      const toType = binding.destination_type === "exchange" ? "exchange" : "queue";
      const known = result.steps.some((step) => step.exchange === exchange.name && step.to === binding.destination && step.toType === toType);
      if (!known) result.steps.push({ exchange: exchange.name, to: binding.destination, toType, why, maybe });
      if (toType === "queue") reach(binding.destination, maybe);
      else todo.push({ name: binding.destination, maybe });
    }
    if (taken.length === 0 && exchange.alternate !== undefined) {
      result.steps.push({ exchange: exchange.name, to: exchange.alternate, toType: "exchange", why: "no binding takes it, and this is the alternate exchange", maybe: next.maybe });
      todo.push({ name: exchange.alternate, maybe: next.maybe });
    }
  }
  result.possible = result.possible.filter((queue) => !result.queues.includes(queue));
  return result;
}
