/** The HTTP API of the broker: requests, logins and errors. */
import { Store } from "./store";

/** Why a request was not carried out. */
export class ApiError extends Error {
  constructor(
    /** The HTTP status; 0 if no broker answered. */
    readonly status: number,
    /** RabbitMQ's name of the error. */
    readonly code: string,
    /** The broker's own reason. */
    readonly reason: string,
  ) {
    super(reason);
  }

  /** True if the user is known but lacks the permission. */
  get refused(): boolean {
    return this.status === 403 || (this.status === 401 && this.code === "not_authorised");
  }

  get unreachable(): boolean {
    return this.status === 0;
  }
}

/** Returns a caught value as an `ApiError`. Any other error is a fault of the page itself, and gets the code `page`. */
export function toApiError(caught: unknown): ApiError {
  return caught instanceof ApiError ? caught : new ApiError(-1, "page", String(caught));
}

export interface Login {
  user: string;
  /** The value of the header `Authorization`. */
  header: string;
  /** How a token is renewed. It is missing if users log in again. */
  renewal?: Renewal;
}

/** What the page needs to renew a token before it ends. */
export interface Renewal {
  refreshToken: string;
  tokenEndpoint: string;
  clientId: string;
  /** From when on the token is renewed, and when it ends, in milliseconds since the epoch. */
  dueAt: number;
  endsAt: number;
}

/** Renews the login before a request, if it is due. `oauth.ts` sets it. */
let renewal: () => Promise<void> = () => Promise.resolve();

export function renewWith(step: () => Promise<void>): void {
  renewal = step;
}

/** The login lasts as long as the browser's tab, and is never part of an address. */
const LOGIN_KEY = "sluice.login";

function storedLogin(): Login | null {
  try {
    const stored: unknown = JSON.parse(sessionStorage.getItem(LOGIN_KEY) ?? "null");
    if (typeof stored !== "object" || stored === null) return null;
    const { user, header, renewal } = stored as Partial<Login>;
    if (typeof user !== "string" || typeof header !== "string") return null;
    return { user, header, ...(isRenewal(renewal) ? { renewal } : {}) };
  } catch {
    // Storage is forbidden, or holds something else: the user logs in again.
    return null;
  }
}

function isRenewal(value: unknown): value is Renewal {
  if (typeof value !== "object" || value === null) return false;
  const fields = value as Record<string, unknown>;
  const texts = ["refreshToken", "tokenEndpoint", "clientId"].every((name) => typeof fields[name] === "string");
  return texts && ["dueAt", "endsAt"].every((name) => typeof fields[name] === "number");
}

export const login = new Store<Login | null>(storedLogin());
login.subscribe(() => {
  try {
    const now = login.get();
    if (now) sessionStorage.setItem(LOGIN_KEY, JSON.stringify(now));
    else sessionStorage.removeItem(LOGIN_KEY);
  } catch {
    // Storage is forbidden: the login lasts until the page is loaded again.
  }
});

/** Why the page asks for a login again; empty if there is nothing to say. */
export const loginNote = new Store("");

/** Since when no broker answers, in milliseconds since the epoch; null if one does. */
export const goneSince = new Store<number | null>(null);

export function basic(user: string, password: string): Login {
  const bytes = new TextEncoder().encode(`${user}:${password}`);
  const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return { user, header: `Basic ${btoa(text)}` };
}

/** Builds a path from its parts; each is encoded. */
export function path(...parts: string[]): string {
  return `/api/${parts.map(encodeURIComponent).join("/")}`;
}

/** Returns the name of an exchange in a path. The default exchange has an alias there, as its name is empty. */
export function exchangeInPath(name: string): string {
  return name === "" ? "amq.default" : name;
}

export interface Options {
  body?: unknown;
  /** A body that is JSON already. */
  json?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** Statuses other than 2xx whose body is an answer: a failed health check has 503. */
  answers?: number[];
  login?: Login;
}

/**
 * Sends a request. Returns the JSON of the answer, or null if it has none.
 *
 * Throws an `ApiError`; if the broker does not accept the login, the page also asks for another.
 */
export async function request(method: string, target: string, options: Options = {}): Promise<unknown> {
  return (await send(method, target, options)).answer;
}

/** Sends a PUT request. Returns true if the object is new, and false if there was one with this name. Throws like [`request`]. */
export async function put(target: string, body: unknown, headers: Record<string, string> = {}): Promise<boolean> {
  return (await send("PUT", target, { body, headers })).status === 201;
}

async function send(method: string, target: string, options: Options): Promise<{ status: number; answer: unknown }> {
  if (!options.login) await renewal();
  const who = options.login ?? login.get();
  const url = new URL(target, location.origin);
  if (url.pathname !== target.split("?")[0]) {
    // Browsers resolve the names `.` and `..` in addresses, so the request would reach another object.
    throw new ApiError(400, "bad_name", "A browser cannot address an object with this name. Use the command line.");
  }
  let response: Response;
  let text: string;
  const body = options.json ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
  try {
    response = await fetch(url, {
      method,
      headers: {
        ...(who ? { authorization: who.header } : {}),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...options.headers,
      },
      ...(body === undefined ? {} : { body }),
      ...(options.signal ? { signal: options.signal } : {}),
      // With credentials of its own, the browser would ask for a login in a window of its own.
      credentials: "omit",
      cache: "no-store",
    });
    text = await response.text();
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    if (goneSince.get() === null) goneSince.set(Date.now());
    throw new ApiError(0, "unreachable", "The broker does not answer.");
  }
  goneSince.set(null);
  const answer = parsed(text);
  if (response.ok || options.answers?.includes(response.status)) return { status: response.status, answer: answer ?? null };
  const fields = typeof answer === "object" && answer !== null ? (answer as Record<string, unknown>) : {};
  const code = typeof fields["error"] === "string" ? fields["error"] : response.statusText;
  // Where there is a detail, the reason is one for programs.
  const sentence = [fields["detail"], fields["reason"]].find((one) => typeof one === "string");
  const reason = tagNeeded(sentence) ?? sentence ?? (text || `HTTP status ${response.status}`);
  const error = new ApiError(response.status, code, reason);
  if (response.status === 401 && !error.refused && !options.login && who !== null && who === login.get()) {
    loginNote.set("The broker does not accept this login any more.");
    login.set(null);
  }
  throw error;
}

/** The tags with another name in the reasons of the broker, which are those of RabbitMQ. */
const TAGS_IN_REASONS: Record<string, string> = { monitor: "monitoring" };

/** Returns the sentence for a reason such as "Not administrator user", or undefined for other reasons. */
export function tagNeeded(reason: unknown): string | undefined {
  const tag = typeof reason === "string" ? /^Not (\w+) user$/.exec(reason)?.[1] : undefined;
  return tag === undefined ? undefined : `This needs the tag ${TAGS_IN_REASONS[tag] ?? tag}.`;
}

function parsed(text: string): unknown {
  if (text === "") return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // Not JSON: a proxy may have answered. The caller shows the text.
    return undefined;
  }
}
