// SPDX-License-Identifier: Apache-2.0
// A login provider for tests: panva's oidc-provider, which is certified, with four people and one client. Lines on stdin are orders, each is answered by a line.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { generateKeyPairSync } from "node:crypto";
import { Provider, interactionPolicy } from "oidc-provider";
import MemoryAdapter from "oidc-provider/lib/adapters/memory_adapter.js";

const { port, client, lifetimes = {}, alg = "RS256" } = JSON.parse(process.argv[2]);
const issuer = `http://127.0.0.1:${port}`;
const PEOPLE = {
  ann: { name: "Ann Admin", email: "ann@example.org", email_verified: true, groups: ["cloche-admins", "team-a"] },
  bob: { name: "Bob Builder", email: "bob@example.org", email_verified: true, groups: ["team-a"] },
  cara: { name: "Cara", email: "cara@example.org", email_verified: true, groups: ["team-a-guests"] },
  eve: { name: "Eve", email: "ann@example.org", email_verified: false, groups: ["visitors"] },
};
const grants = new Map();

class Adapter extends MemoryAdapter {
  async upsert(id, payload, expiresIn) {
    if (this.model === "Grant") grants.set(id, payload.accountId);
    return super.upsert(id, payload, expiresIn);
  }
}

let generation = 0;
let handle;

function makeKey() {
  const { privateKey } = alg === "ES256" ? generateKeyPairSync("ec", { namedCurve: "P-256" }) : generateKeyPairSync("rsa", { modulusLength: 2048 });
  generation += 1;
  return { ...privateKey.export({ format: "jwk" }), kid: `key-${generation}`, use: "sig", alg };
}

function start() {
  const provider = new Provider(issuer, {
    adapter: Adapter,
    clients: [{ id_token_signed_response_alg: alg, ...client }],
    jwks: { keys: [makeKey()] },
    cookies: { keys: ["tests"] },
    conformIdTokenClaims: false,
    claims: { openid: ["sub", "groups"], profile: ["name"], email: ["email", "email_verified"] },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...PEOPLE[id] }) }),
    features: { devInteractions: { enabled: true }, deviceFlow: { enabled: true }, revocation: { enabled: true }, backchannelLogout: { enabled: true }, rpInitiatedLogout: { enabled: true, logoutSource: (ctx, form) => (ctx.body = form), postLogoutSuccessSource: (ctx) => (ctx.body = "out") } },
    rotateRefreshToken: true,
    issueRefreshToken: (_, asked, code) => asked.grantTypeAllowed("refresh_token") && code.scopes.has("offline_access"),
    ttl: { IdToken: lifetimes.idToken ?? 600, RefreshToken: 3600, AccessToken: 600, Session: 3600, Grant: 3600, Interaction: 600, DeviceCode: 600 },
    pkce: { required: () => true, methods: ["S256"] },
    interactions: { policy: interactionPolicy.base() },
  });
  provider.on("server_error", (_, error) => console.error(error));
  handle = provider.callback();
  return provider;
}

let provider = start();
const ORDERS = {
  // A new key; what was signed by the old one is good no more.
  rotate: () => (provider = start()),
  // People's grants are taken back: refresh tokens are refused from now on.
  async revoke(who) {
    for (const [id, account] of grants) if (account === who) await provider.Grant.adapter.destroy(id);
  },
  // Somebody's groups change.
  groups: (who, ...groups) => (PEOPLE[who].groups = groups),
};
createServer((req, res) => handle(req, res)).listen(port, "127.0.0.1", () => console.log("ready"));
for await (const line of createInterface({ input: process.stdin })) {
  const [order, ...words] = line.split(" ");
  await ORDERS[order](...words);
  console.log("done");
}
