// An identity provider for the test: it sends users back with a code, checks PKCE, and signs tokens.
import { createHash, createHmac, randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { Broker } from "./broker.mjs";

/** The name of the page at the provider. */
export const CLIENT = "sluice-page";

/** The secret with which the tokens are signed. */
export const SECRET = "the shared secret of this test only";

const base64url = (value) => Buffer.from(value).toString("base64url");

function signed(claims) {
  const text = `${base64url(JSON.stringify({ alg: "HS256", typ: "JWT" }))}.${base64url(JSON.stringify(claims))}`;
  return `${text}.${createHmac("sha256", SECRET).update(text).digest("base64url")}`;
}

export class Provider {
  static async start() {
    const provider = new Provider();
    /** What the page has sent with each code, and the error that is sent instead of a code. */
    Object.assign(provider, { codes: new Map(), refuses: "", exchanged: 0 });
    /** The lifetime of tokens in seconds, the refresh token that is valid, how often it was used, and the error instead. */
    Object.assign(provider, { lifetime: 600, refreshToken: "", renewed: 0, refusesRenewal: "" });
    provider.server = createServer((request, response) => void provider.answer(request, response));
    await new Promise((done) => provider.server.listen(0, "127.0.0.1", done));
    provider.url = `http://127.0.0.1:${provider.server.address().port}`;
    return provider;
  }

  async stop() {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }

  /** Returns an access token with this scope, and the refresh token for the next one. */
  tokens(scope) {
    this.refreshToken = randomBytes(16).toString("hex");
    const exp = Math.floor(Date.now() / 1000) + this.lifetime;
    const access_token = signed({ sub: "ann", aud: "rabbitmq", exp, scope });
    return { access_token, token_type: "Bearer", expires_in: this.lifetime, refresh_token: this.refreshToken };
  }

  async answer(request, response) {
    const url = new URL(request.url, this.url);
    const json = (status, body) => {
      response.writeHead(status, { "content-type": "application/json", "access-control-allow-origin": "*" });
      response.end(JSON.stringify(body));
    };
    if (url.pathname === "/.well-known/openid-configuration") {
      return json(200, { issuer: this.url, authorization_endpoint: `${this.url}/authorize`, token_endpoint: `${this.url}/token` });
    }
    if (url.pathname === "/authorize") {
      // The user has logged in, and sees a link that stands for the answer.
      const asked = Object.fromEntries(url.searchParams);
      const back = new URL(asked.redirect_uri);
      back.searchParams.set("state", asked.state);
      if (this.refuses) back.searchParams.set("error", this.refuses);
      else {
        const code = randomBytes(16).toString("hex");
        this.codes.set(code, asked);
        back.searchParams.set("code", code);
      }
      response.writeHead(200, { "content-type": "text/html" });
      return response.end(`<!doctype html><title>Provider</title><a href="${back.href.replaceAll("&", "&amp;")}">Continue</a>`);
    }
    if (url.pathname === "/token" && request.method === "POST") {
      let body = "";
      for await (const part of request) body += part;
      const sent = Object.fromEntries(new URLSearchParams(body));
      if (sent.grant_type === "refresh_token") {
        // Each refresh token is valid once.
        const right = sent.client_id === CLIENT && sent.refresh_token === this.refreshToken && !this.refusesRenewal;
        if (!right) return json(400, { error: "invalid_grant", error_description: this.refusesRenewal || "the refresh token is not valid" });
        this.renewed += 1;
        return json(200, this.tokens(this.scope));
      }
      const asked = this.codes.get(sent.code);
      this.codes.delete(sent.code);
      const challenge = createHash("sha256").update(sent.code_verifier ?? "").digest("base64url");
      const right = asked && sent.grant_type === "authorization_code" && sent.client_id === CLIENT && asked.client_id === CLIENT
        && asked.response_type === "code" && asked.code_challenge_method === "S256" && asked.code_challenge === challenge && asked.redirect_uri === sent.redirect_uri;
      if (!right) return json(400, { error: "invalid_grant", error_description: "the code is unknown, or is not of this client" });
      this.exchanged += 1;
      this.scope = asked.scope;
      return json(200, this.tokens(asked.scope));
    }
    return json(404, { error: "not_found" });
  }
}

/**
 * Starts a provider, and a broker whose users log in there. Calls `test` with both, and with a function that starts the broker
 * again with further settings.
 */
export async function withProvider(program, test) {
  const provider = await Provider.start();
  const broker = await Broker.start(program);
  try {
    const secret = join(broker.folder, "secret");
    writeFileSync(secret, SECRET);
    const settings = {
      "auth_backends.1": "oauth2",
      "auth_backends.2": "internal",
      "auth_oauth2.resource_server_id": "rabbitmq",
      "auth_oauth2.algorithms.1": "HS256",
      "auth_oauth2.signing_keys.k": secret,
      "management.oauth_enabled": true,
      "management.oauth_client_id": CLIENT,
      "management.oauth_provider_url": provider.url,
      "management.oauth_scopes": "openid rabbitmq.tag:administrator rabbitmq.read:*/*/*",
      "management.oauth_disable_basic_auth": false,
    };
    const restart = async (more) => {
      await broker.down();
      await broker.up({ ...settings, ...more });
    };
    await restart({});
    await test(provider, broker, restart);
  } finally {
    await broker.stop();
    await provider.stop();
  }
}
