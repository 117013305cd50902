import { describe, expect, it } from "vitest";
import { authorizeAddress, challenge, isBack, providerIn, webAddress } from "../src/lib/oauth";

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

  it("is back with a code or an error", () => {
    expect(["?code=c&state=s", "?error=access_denied&state=s"].map(isBack)).toEqual([true, true]);
    expect(["", "?code=c", "?state=s", "?name=x"].map(isBack)).toEqual([false, false, false, false]);
  });
});
