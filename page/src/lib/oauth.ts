/**
 * Login with an identity provider: the authorization code flow of OAuth 2 with PKCE (RFC 6749 4.1, RFC 7636).
 *
 * The page is a public client: it has no secret. It sends the user to the provider, which sends the user back with a code. Only
 * this tab has the verifier that makes a token of the code.
 */
import { ApiError, login, loginNote, path, type Renewal, renewWith, request, toApiError, type Login } from "./api";
import { go } from "./place";

/** How users log in, as `GET /api/auth` says. */
export interface Provider {
  clientId: string;
  url: string;
  scopes: string;
  /** True if a user and a password are accepted, too. */
  passwords: boolean;
}

/** What this tab remembers while the user is at the provider. */
interface Pending {
  state: string;
  verifier: string;
  clientId: string;
  tokenEndpoint: string;
  /** The place in the page to return to. */
  hash: string;
}

const PENDING_KEY = "sluice.pending-login";

/** A token is renewed when this part of its time is over. The rest is for a provider that does not answer at once. */
const RENEWED_AT = 3 / 4;

/** The time between two attempts, in milliseconds, if the provider does not answer. */
const RETRY_MS = 10_000;

/** The bytes of randomness in a state and a verifier. RFC 7636 recommends 32 for a verifier. */
const RANDOM_BYTES = 32;

/** Reads the answer of `GET /api/auth`. Returns null if users only log in with a password. */
export function providerIn(answer: unknown): Provider | null {
  const fields = record(answer);
  const [clientId, url] = [fields["oauth_client_id"], fields["oauth_provider_url"]];
  if (fields["oauth_enabled"] !== true || typeof clientId !== "string" || typeof url !== "string") return null;
  const scopes = typeof fields["oauth_scopes"] === "string" ? fields["oauth_scopes"] : "openid";
  return { clientId, url, scopes, passwords: fields["oauth_disable_basic_auth"] === false };
}

/** Asks the broker how users log in. */
export async function provider(): Promise<Provider | null> {
  return providerIn(await request("GET", path("auth")));
}

/** Sends the user to the provider. Throws an `ApiError` if that is not possible. */
export async function begin(at: Provider): Promise<void> {
  // Browsers have `crypto.subtle` only where nobody on the way can change the page.
  if (!globalThis.isSecureContext) throw problem("Sign-in with the identity provider needs the page over HTTPS.");
  const described = record(await json(`${at.url}/.well-known/openid-configuration`));
  const [authorize, tokenEndpoint] = [webAddress(described["authorization_endpoint"]), webAddress(described["token_endpoint"])];
  const pending: Pending = { state: random(), verifier: random(), clientId: at.clientId, tokenEndpoint: tokenEndpoint.href, hash: location.hash };
  try {
    sessionStorage.setItem(PENDING_KEY, JSON.stringify(pending));
  } catch {
    throw problem("This browser lets the page remember nothing, which sign-in with the identity provider needs.");
  }
  location.assign(authorizeAddress(authorize, at, pending.state, await challenge(pending.verifier), redirectUri()));
}

/** Returns true if the provider has just sent the user back. */
export function isBack(search: string): boolean {
  const query = new URLSearchParams(search);
  return query.has("state") && (query.has("code") || query.has("error"));
}

/** Makes a login of what the provider has sent back. Throws an `ApiError` if it is not one. */
export async function finish(): Promise<Login> {
  const query = new URLSearchParams(location.search);
  const pending = takePending();
  // The code must be in no bookmark and in no step back.
  history.replaceState(null, "", location.pathname);
  if (pending) go(pending.hash || "#/", true);
  if (!pending || pending.state !== query.get("state")) throw problem("This sign-in did not begin in this tab. Try again.");
  const error = query.get("error");
  if (error !== null) throw problem(`The identity provider refuses: ${query.get("error_description") ?? error}`);
  const form = new URLSearchParams({
    grant_type: "authorization_code",
    code: query.get("code") ?? "",
    redirect_uri: redirectUri(),
    client_id: pending.clientId,
    code_verifier: pending.verifier,
  });
  const { tokenEndpoint, clientId } = pending;
  const got = tokenIn(await json(tokenEndpoint, form), { tokenEndpoint, clientId }, Date.now());
  const who = record(await request("GET", path("whoami"), { login: { user: "", ...got } }))["name"];
  return { user: typeof who === "string" ? who : "", ...got };
}

/**
 * Reads the answer of the token endpoint to a request that was sent at `now` (RFC 6749 5.1). Without a refresh token or a lifetime,
 * the token is not renewed. A provider that sends no new refresh token lets the one of before be used again.
 */
export function tokenIn(answer: unknown, at: Pick<Renewal, "tokenEndpoint" | "clientId"> & { refreshToken?: string }, now: number): Omit<Login, "user"> {
  const { access_token: token, refresh_token: newer, expires_in: lifetime } = record(answer);
  if (typeof token !== "string") throw problem("The identity provider has sent no token.");
  const header = `Bearer ${token}`;
  const refreshToken = typeof newer === "string" && newer !== "" ? newer : at.refreshToken;
  // Some providers send the number as text.
  const ms = Number(lifetime ?? NaN) * 1000;
  if (refreshToken === undefined || !(ms > 0)) return { header };
  const { tokenEndpoint, clientId } = at;
  return { header, renewal: { refreshToken, tokenEndpoint, clientId, dueAt: now + ms * RENEWED_AT, endsAt: now + ms } };
}

/** The renewal that runs. All requests wait for the same one, because a refresh token may be used once only. */
let renewing: Promise<void> | null = null;

/**
 * Renews the token of the login if it is due. If the provider refuses, the user logs in again, and sees why. If it does not
 * answer, the page goes on with its token, and tries again until the token ends.
 */
export function renewIfDue(): Promise<void> {
  const now = login.get();
  const how = now?.renewal;
  if (!now || !how || Date.now() < how.dueAt) return Promise.resolve();
  renewing ??= renew(now, how).finally(() => { renewing = null; });
  return renewing;
}

renewWith(renewIfDue);

async function renew(before: Login, how: Renewal): Promise<void> {
  const sent = Date.now();
  const form = new URLSearchParams({ grant_type: "refresh_token", refresh_token: how.refreshToken, client_id: how.clientId });
  try {
    const got = tokenIn(await json(how.tokenEndpoint, form), how, sent);
    // The user may have logged out meanwhile.
    if (login.get() === before) login.set({ user: before.user, ...got });
  } catch (caught) {
    const error = toApiError(caught);
    if (login.get() !== before) return;
    const now = Date.now();
    if (error.unreachable && now < how.endsAt) {
      login.set({ ...before, renewal: { ...how, dueAt: Math.min(now + RETRY_MS, how.endsAt) } });
      return;
    }
    loginNote.set(`The sign-in could not be renewed: ${error.reason}`);
    login.set(null);
    throw error;
  }
}

/** Returns the address at the provider where the user logs in. */
export function authorizeAddress(endpoint: URL, at: Provider, state: string, challenge: string, redirect: string): string {
  const address = new URL(endpoint);
  for (const [name, value] of Object.entries({
    response_type: "code",
    client_id: at.clientId,
    redirect_uri: redirect,
    scope: at.scopes,
    state,
    code_challenge: challenge,
    code_challenge_method: "S256",
  })) address.searchParams.set(name, value);
  return address.href;
}

/** Returns the challenge of a verifier: its hash, which the provider gets first. */
export async function challenge(verifier: string): Promise<string> {
  return base64url(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier))));
}

/** Checks an address that the provider has sent: it must not be a script. */
export function webAddress(value: unknown): URL {
  const address = typeof value === "string" && URL.canParse(value) ? new URL(value) : null;
  if (address && ["https:", "http:"].includes(address.protocol)) return address;
  throw problem("The identity provider does not say where users sign in.");
}

/** The address to which the provider sends users back. The provider must know it. */
function redirectUri(): string {
  return `${location.origin}/`;
}

function takePending(): Pending | null {
  try {
    const stored = sessionStorage.getItem(PENDING_KEY);
    sessionStorage.removeItem(PENDING_KEY);
    const fields = record(JSON.parse(stored ?? "null"));
    const texts = ["state", "verifier", "clientId", "tokenEndpoint", "hash"].every((name) => typeof fields[name] === "string");
    return texts ? (fields as unknown as Pending) : null;
  } catch {
    // Storage is forbidden, or holds something else: the sign-in did not begin here.
    return null;
  }
}

/** Sends a request to the provider. Returns the JSON of the answer. */
async function json(address: string, form?: URLSearchParams): Promise<unknown> {
  const provider = new URL(address).host;
  let response: Response;
  let answer: unknown;
  try {
    response = await fetch(address, { ...(form ? { method: "POST", body: form } : {}), headers: { accept: "application/json" }, credentials: "omit", cache: "no-store" });
    answer = await response.json();
  } catch {
    throw new ApiError(0, "unreachable", `The identity provider ${provider} does not answer, sends no JSON, or does not let this page ask (CORS, or the Content-Security-Policy of the broker).`);
  }
  if (response.ok) return answer;
  const fields = record(answer);
  throw problem(`The identity provider ${provider} refuses: ${String(fields["error_description"] ?? fields["error"] ?? response.status)}`);
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function random(): string {
  return base64url(crypto.getRandomValues(new Uint8Array(RANDOM_BYTES)));
}

function base64url(bytes: Uint8Array): string {
  const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function problem(reason: string): ApiError {
  return new ApiError(400, "login", reason);
}
