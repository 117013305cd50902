import { describe, expect, it } from "vitest";
import { authorizeAddress, challenge, isBack, providerIn, tokenIn, webAddress } from "../src/lib/oauth";

describe("a sign-in with an identity provider", () => {
  const answer = { oauth_enabled: true, oauth_client_id: "page", oauth_provider_url: "https://idp/a", oauth_scopes: "openid rabbitmq.tag:administrator", oauth_disable_basic_auth: true };

  it("is offered if the broker says so", () => {
    expect(providerIn(answer)).toEqual({ clientId: "page", url: "https://idp/a", scopes: "openid rabbitmq.tag:administrator", passwords: false });
    expect(providerIn({ ...answer, oauth_disable_basic_auth: false })?.passwords).toBe(true);
    for (const other of [null, 7, {}, { oauth_enabled: false }, { ...answer, oauth_client_id: 7 }]) expect(providerIn(other)).toBeNull();
  });

  it("sends a challenge, and not the verifier", async () => {
    // The example of RFC 7636, appendix B.
    const of = await challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    expect(of).toBe("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    const at = providerIn(answer);
    if (!at) throw new Error("it is offered");
    const address = new URL(authorizeAddress(new URL("https://idp/login?tenant=1"), at, "s", of, "https://broker/"));
    expect(Object.fromEntries(address.searchParams)).toEqual({
      tenant: "1", response_type: "code", client_id: "page", redirect_uri: "https://broker/", scope: at.scopes, state: "s", code_challenge: of, code_challenge_method: "S256",
    });
  });

  it("goes to web addresses only", () => {
    expect(webAddress("https://idp/login").href).toBe("https://idp/login");
    for (const other of ["javascript:alert(1)", "data:text/html,x", "login", "", undefined, 7]) expect(() => webAddress(other)).toThrow("does not say where");
  });

  it("is renewed if the provider says how and when", () => {
    const at = { tokenEndpoint: "https://idp/token", clientId: "page" };
    const renewal = { ...at, refreshToken: "r", dueAt: 1_075_000, endsAt: 1_100_000 };
    expect(tokenIn({ access_token: "t", refresh_token: "r", expires_in: 100 }, at, 1_000_000)).toEqual({ header: "Bearer t", renewal });
    expect(tokenIn({ access_token: "t", refresh_token: "r", expires_in: "100" }, at, 1_000_000).renewal).toEqual(renewal);
    // A provider may let the old refresh token be used again, or replace it.
    expect(tokenIn({ access_token: "t", expires_in: 100 }, renewal, 1_000_000).renewal).toEqual(renewal);
    expect(tokenIn({ access_token: "t", refresh_token: "new", expires_in: 100 }, renewal, 0).renewal?.refreshToken).toBe("new");
    for (const other of [{}, { refresh_token: "r" }, { refresh_token: 7, expires_in: 100 }, { refresh_token: "r", expires_in: 0 }, { refresh_token: "r", expires_in: "soon" }, { refresh_token: "r", expires_in: null }]) {
      expect(tokenIn({ access_token: "t", ...other }, at, 0)).toEqual({ header: "Bearer t" });
    }
    for (const none of [null, 7, {}, { access_token: 7 }]) expect(() => tokenIn(none, at, 0)).toThrow("has sent no token");
  });

  it("is back with a code or an error", () => {
    expect(["?code=c&state=s", "?error=access_denied&state=s"].map(isBack)).toEqual([true, true]);
    expect(["", "?code=c", "?state=s", "?name=x"].map(isBack)).toEqual([false, false, false, false]);
  });
});
