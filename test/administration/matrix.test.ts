/** Every operation of the REST API for every role, limited to a service or not: one service, one table. */
import { describe, expect, it } from "@jest/globals";
import type { Administrator } from "../../administration/administrator.ts";
import { ADDRESSES } from "../../administration/rest/addresses.ts";
import { IDEMPOTENCY } from "../../records/administration/idempotency-kinds.ts";
import { beforeTests } from "../closing.ts";
import { openAdministration } from "./stage.ts";

/**
 * Who may ask: the least role (v, s, a), that of a token limited to a service (- for none), and d if the role `deliveries` may. Written
 * by hand after the decisions, not taken from the rows.
 */
const MAY = `
GET /v1/accounts v v
POST /v1/accounts/search v v
GET /v1/accounts/{sub} v v
POST /v1/accounts a -
PATCH /v1/accounts/{sub} a -
DELETE /v1/accounts/{sub} a -
POST /v1/accounts/{sub}/set-password a -
POST /v1/accounts/{sub}/send-reset s -
POST /v1/accounts/{sub}/disable s -
POST /v1/accounts/{sub}/enable s -
POST /v1/accounts/{sub}/assign a -
DELETE /v1/accounts/{sub}/services a a
POST /v1/accounts/{sub}/set-roles a a
POST /v1/accounts/{sub}/end-sessions s -
POST /v1/accounts/{sub}/revoke-tokens s s
GET /v1/accounts/{sub}/sign-in-checks v -
GET /v1/accounts/{sub}/sessions v -
GET /v1/accounts/{sub}/consents v -
GET /v1/accounts/{sub}/factors v -
DELETE /v1/accounts/{sub}/factors/{factor} s -
DELETE /v1/accounts/{sub}/factors s -
GET /v1/accounts/{sub}/identities v -
POST /v1/accounts/{sub}/identities a -
DELETE /v1/accounts/{sub}/identities/{provider} a -
GET /v1/accounts/{sub}/acknowledgements v - d
GET /v1/invitations v -
GET /v1/invitations/{id} v -
POST /v1/invitations a -
POST /v1/invitations/{id}/send s -
POST /v1/invitations/{id}/withdraw s -
GET /v1/clients v v
GET /v1/clients/{client_id} v v
POST /v1/clients a -
PATCH /v1/clients/{client_id} a a
DELETE /v1/clients/{client_id} a -
POST /v1/clients/{client_id}/rotate-secret a -
POST /v1/clients/{client_id}/revoke-tokens a -
POST /v1/clients/{client_id}/disable a -
POST /v1/clients/{client_id}/enable a -
GET /v1/services v v
GET /v1/services/{key} v v
POST /v1/services a -
PATCH /v1/services/{key} a -
DELETE /v1/services/{key} a -
GET /v1/groups v -
GET /v1/groups/{key} v -
POST /v1/groups a -
PATCH /v1/groups/{key} a -
DELETE /v1/groups/{key} a -
GET /v1/portals v -
GET /v1/portals/{key} v -
POST /v1/portals a -
PATCH /v1/portals/{key} a -
DELETE /v1/portals/{key} a -
GET /v1/apis v v
GET /v1/apis/{identifier} v v
POST /v1/apis a -
PATCH /v1/apis/{identifier} a -
DELETE /v1/apis/{identifier} a -
GET /v1/documents v -
GET /v1/documents/{address} v -
POST /v1/documents/{address}/block a -
POST /v1/documents/{address}/unblock a -
GET /v1/receivers v v d
GET /v1/receivers/{receiver} v v d
POST /v1/receivers/{receiver}/pause a - d
POST /v1/receivers/{receiver}/resume a - d
POST /v1/receivers/{receiver}/test a - d
GET /v1/deliveries v v d
GET /v1/deliveries/{id} v v d
POST /v1/deliveries/{id}/redrive s s d
POST /v1/deliveries/redrive-all s s d
POST /v1/deliveries/{id}/send-now s s d
POST /v1/deliveries/{id}/discard a - d
POST /v1/deliveries/resume a -
GET /v1/deliveries/explain v -
GET /v1/deliveries/stats v - d
GET /v1/audit v v
GET /v1/audit/{record} v v
GET /v1/keys v -
POST /v1/keys/rotate a -
POST /v1/keys/{kid}/retire a -
GET /v1/health v -
`;

const LETTERS = { viewer: "v", support: "s", administrator: "a", deliveries: "d" } as const;
const RANKS = "vsa";

const rows = MAY.trim()
  .split("\n")
  .map((line) => {
    const [method = "", path = "", role = "", limited = "", deliveries] = line.split(" ");
    return { name: `${method} ${path}`, method, path, role, limited, deliveries: deliveries === "d" };
  });

const WHO: readonly Omit<Administrator, "actor">[] = (
  ["viewer", "support", "administrator", "deliveries"] as const
).flatMap((role) => [{ role }, { role, service: "news" }]);

function may({ role, service }: Omit<Administrator, "actor">, row: (typeof rows)[number]): boolean {
  if (role === "deliveries") return service === undefined && row.deliveries;
  const has = (least: string): boolean =>
    RANKS.includes(least) && RANKS.indexOf(LETTERS[role]) >= RANKS.indexOf(least);
  return has(row.role) && (service === undefined || has(row.limited));
}

const stage = beforeTests(async () => {
  const opened = await openAdministration();
  const { accounts, clients, directory } = opened;
  for (const key of ["news", "x"]) {
    await directory.services.put(key, { name: key });
    await directory.groups.put(key, { name: key });
    await directory.portals.put(key, { name: key });
  }
  await clients.register({
    client_id: "x",
    name: "X",
    service: "news",
    redirect_uris: ["https://x.example/cb"],
  });
  const { sub } = await accounts.create({
    email: "ada@example.com",
    password: "correct horse battery staple",
  });
  await accounts.assign(sub, "news");
  return { ...opened, sub };
});

/** What is stored, but for what shows that somebody looked. */
async function stored(): Promise<string> {
  const kinds = [
    "account",
    "client",
    "service",
    "group",
    "portal",
    "api",
    "signing-key",
    "delivery",
    IDEMPOTENCY.name,
  ];
  const all = await Promise.all(
    kinds.map((kind) => stage.storage.records.store.scan(kind, undefined, 1_000)),
  );
  return JSON.stringify(
    all.map(({ records }) => records.map(({ key, version }) => `${key} ${version}`).toSorted()),
  );
}

describe("the table of who may ask for what", () => {
  it("names every operation [D-ADM-66]", () => {
    const there = ADDRESSES.map(({ method, path }) => `${method} ${path}`);
    expect(rows.map(({ name }) => name).toSorted()).toEqual(there.toSorted());
  });

  it.each(WHO.map((who) => [who.role, who.service ?? "everything", who] as const))(
    "holds for %s of %s [D-ADM-66]",
    async (_role, _service, who) => {
      const send = stage.as({ ...who, actor: { kind: "token", id: `tok_${who.role}_${who.service ?? ""}` } });
      const sent = (row: (typeof rows)[number]) => ({
        headers: { "Idempotency-Key": row.name },
        ...(["POST", "PATCH"].includes(row.method) && { body: {} }),
      });
      // What is there, so that a right too many would change it.
      const forbidden = rows.filter((row) => !may(who, row));
      const before = await stored();
      for (const row of forbidden) {
        const path = row.path.replace("{sub}", stage.sub).replace(/\{\w+\}/u, "x");
        const { status, body } = await send(row.method, path, sent(row));
        expect([row.name, status, body.code]).toEqual([row.name, 403, "role_required"]);
      }
      expect(await stored()).toBe(before);
      // What is not there, so that nothing changes.
      for (const row of rows.filter((each) => may(who, each))) {
        const path = row.path.replaceAll(/\{\w+\}/gu, "nothing-like-that");
        const { status, body } = await send(row.method, path, sent(row));
        expect([row.name, [200, 201, 204, 404, 409, 422].includes(status), body.code]).toEqual([
          row.name,
          true,
          body.code,
        ]);
        if (who.service !== undefined && row.path.includes("{"))
          expect([row.name, status]).toEqual([row.name, 404]);
      }
    },
  );
});
