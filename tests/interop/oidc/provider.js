// An OpenID provider on loopback, with HTTPS and keys of its own. Programs get tokens with the grant client_credentials:
//
//   client_id      interop, with the secret `secret`; it is the claim `sub` of the tokens
//   scope          the scopes of the token; all are granted
//   resource       for whom the token is, and for how many seconds: urn:interop:AUDIENCE:SECONDS. Without it, the
//                  token is for `rabbitmq` and one hour
//
// A request to /rotate makes it sign with a new key. The older keys stay published, so that older tokens stay valid.
//
// It prints its URL when it is ready.

import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import Provider, { errors } from 'oidc-provider';

const file = name => readFileSync(`${process.env.SLUICE_TLS}/${name}`);

function newKey() {
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    return { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), use: 'sig', alg: 'RS256' };
}

// The newest first: the provider signs with it.
const keys = [newKey()];

function resourceServer({ oidc }, resource) {
    const [, audience, seconds] = resource.match(/^urn:interop:(\w+):(\d+)$/) ?? [];
    if (!audience) throw new errors.InvalidTarget();
    return { audience, accessTokenTTL: Number(seconds), accessTokenFormat: 'jwt', scope: oidc.params.scope };
}

const server = createServer({ cert: file('server.pem'), key: file('server.key') });
server.listen(0, '127.0.0.1', () => {
    const issuer = `https://localhost:${server.address().port}`;
    const begin = () => new Provider(issuer, {
        clients: [{
            client_id: 'interop', client_secret: 'secret', grant_types: ['client_credentials'],
            redirect_uris: [], response_types: [],
        }],
        features: {
            clientCredentials: { enabled: true },
            devInteractions: { enabled: false },
            resourceIndicators: {
                enabled: true,
                defaultResource: () => 'urn:interop:rabbitmq:3600',
                getResourceServerInfo: resourceServer,
            },
        },
        jwks: { keys },
    }).callback();
    let answer = begin();
    server.on('request', (request, response) => {
        if (request.url !== '/rotate') return answer(request, response);
        keys.unshift(newKey());
        answer = begin();
        response.end();
    });
    console.log(issuer);
});
