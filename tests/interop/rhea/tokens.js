// Logins with tokens of an OpenID provider, with rhea.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:https';
import { json } from 'node:stream/consumers';
import rhea from 'rhea';
import { bodies, Client, file, overTls } from './client.js';

export const ISSUER = process.env.SLUICE_ISSUER;
const ALL = 'rabbitmq.configure:*/* rabbitmq.write:*/* rabbitmq.read:*/*';
const FOR_US = 'urn:interop:rabbitmq:3600';
const FOR_US_BRIEFLY = 'urn:interop:rabbitmq:5'; // seconds
const FOR_OTHERS = 'urn:interop:other:3600';

/** Gets a token with the grant client_credentials. */
async function token(scope = ALL, resource = FOR_US) {
    const asking = request(`${ISSUER}/token`, {
        method: 'POST', auth: 'interop:secret', ca: file('ca.pem'),
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
    });
    asking.end(new URLSearchParams({ grant_type: 'client_credentials', scope, resource }).toString());
    const [answer] = await once(asking, 'response');
    assert.equal(answer.statusCode, 200);
    return (await json(answer)).access_token;
}

/** Connects with a token as the password. The name of the user is in the token. */
const login = password => Client.connect({ ...overTls(), username: 'anybody', password });

const UNAUTHORIZED = 'amqp:unauthorized-access';

export const checks = {
    async a_token_allows_what_its_scopes_say() {
        const client = await login(await token('rabbitmq.configure:*/rhea.* rabbitmq.write:*/* rabbitmq.read:*/rhea.*'));
        await client.onQueue('rhea.own', 'a');
        assert.deepEqual(bodies(await (await client.consumer('rhea.own')).drain()), ['a']);
        await assert.rejects(client.consumer('orders'), {
            condition: UNAUTHORIZED,
            message: `${UNAUTHORIZED}: read access to queue 'orders' in vhost '/' refused for user 'interop'`,
        });
        client.connection.close();
    },

    async a_token_for_others_is_refused() {
        await assert.rejects(login(await token(ALL, FOR_OTHERS)), /[Aa]uth|disconnected/);
    },

    async a_token_opens_the_management_api() {
        const authorization = `Bearer ${await token('rabbitmq.tag:monitoring rabbitmq.read:*/*')}`;
        const get = path => fetch(`http://${process.env.SLUICE_HTTP}/api/${path}`, { headers: { authorization } });
        const { name, tags } = await (await get('whoami')).json();
        assert.deepEqual([name, tags], ['interop', ['monitoring']]);
        assert.equal((await get('users')).status, 401);
    },

    async an_expired_token_closes_the_connection_unless_it_was_renewed() {
        const renewed = await login(await token(ALL, FOR_US_BRIEFLY));
        const expiring = await login(await token(ALL, FOR_US_BRIEFLY));
        const next = rhea.types.wrap_binary(Buffer.from(await token()));
        await (await renewed.manage()).ask(204, 'PUT', '/auth/tokens', next);
        await assert.rejects(expiring.closed(), { message: `${UNAUTHORIZED}: credential expired` });
        // The first token of this connection has expired before that of the other.
        await renewed.onQueue('rhea.renewed', 'a');
        await renewed.close();
    },
};
