/** Everything about one person, for a request of that person. */
import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { AccountData } from "../../accounts/operations/accounts.ts";
import { PERSONAL_DATA } from "../../accounts/support/account-data.ts";
import { KINDS } from "../../records/all-kinds.ts";
import { IDENTITY, identityContext, identityId } from "../../records/people/identity-kinds.ts";
import { INVITATION, invitationContext } from "../../records/people/invitation-kinds.ts";
import { MAIL, sealMail } from "../../records/people/mail-kinds.ts";
import { CONFIRMATION, confirmationContext } from "../../records/people/confirmation-kinds.ts";
import { REMEMBERED_BROWSER, rememberedBrowserId } from "../../records/factors/factor-kinds.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import type { RecordData } from "../../adapters/record-store.ts";
import { codeOf, type Domain, openDomain, seed, START } from "./open-domain.ts";

const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const CODE = "123-456-of-a-mail";
const INVITED = randomUUID();
const crm = {
  url: "https://crm.example/events",
  signing_secret: `whsec_${"A".repeat(32)}`,
  types: ["account.invited"],
  include: ["email"],
} as const;

let domain: Domain;
let sub: string;
let data: AccountData;
let codes: readonly string[];
/** Of others. */
let ids: readonly string[];

/** What other parts of the service write about a person. */
function otherRecords({ sub: of, ...account }: AccountRecord): RecordData[] {
  const id = identityId({ issuer: "https://accounts.google.com", subject: "there" });
  const now = domain.clock.now();
  const expiresAt = now + 3_600_000;
  const { sealer } = domain;
  const provider = { links: [{ id, provider: "google", linked_at: START }] };
  return [
    ACCOUNT.record({ ...account, sub: of, ways: { ...account.ways, provider } }),
    MAIL.record(
      sealMail(
        sealer,
        {
          kind: "sign-in-code",
          to: "ADA@example.com",
          deployment: "openid",
          params: { code: CODE },
          expiresAt,
        },
        now,
      ),
    ),
    CONFIRMATION.record({
      purpose: "address-change",
      subject: of,
      interaction: null,
      code: "c",
      link: "l",
      triesLeft: 5,
      confirmed: false,
      sealed: sealer.seal(
        confirmationContext("address-change", of),
        JSON.stringify({ email: "next@example.com", password_hash: "$argon2id$of the person" }),
      ),
      createdAt: now,
      expiresAt,
    }),
    INVITATION.record({
      id: INVITED,
      address: "digest",
      sealed: sealer.seal(
        invitationContext(INVITED),
        JSON.stringify({ email: "ada@example.com", services: { "1": null } }),
      ),
      state: "accepted",
      invitedBy: { kind: "operator", id: "somebody" },
      byAdministrator: true,
      deployment: "openid",
      sendsLeft: 3,
      sub: of,
      createdAt: now,
      sentAt: now,
      expiresAt,
    }),
    REMEMBERED_BROWSER.record({
      id: rememberedBrowserId("cookie", of),
      sub: of,
      generation: 1,
      browser: "Firefox",
      system: "linux",
      added_at: START,
      expires_at: START + 86_400,
    }),
    IDENTITY.record({
      id,
      issuer: "https://accounts.google.com",
      subject: "there",
      sub: of,
      provider: "google",
      sealed: sealer.seal(identityContext(id), "ada@there.example"),
      linked_at: START,
      last_used_at: null,
    }),
  ];
}

describe("everything about a person", () => {
  beforeAll(async () => {
    domain = await openDomain({ receivers: { crm } });
    sub = await seed(domain);
    const { accounts } = domain;
    await accounts.setPassword(sub, "a password of ada");
    ({ recovery_codes: codes } = await accounts.addApp(sub, { secret: SECRET }));
    await accounts.update(sub, { surname: "Lovelace" });
    const { sub: other } = await accounts.create({ email: "grace@example.com", surname: "Hopper" });
    await accounts.update(other, { surname: "Murray" });
    await domain.storage.records.store.commit({
      id: randomUUID(),
      deadline: domain.clock.now() + 60_000,
      put: otherRecords((await accounts.record(sub))!),
    });
    await domain.storage.records.transact(async (tx) => {
      for (const [invitation, email] of [
        [INVITED, "ada@example.com"],
        [randomUUID(), "grace@example.com"],
      ] as const)
        await domain.webhooks.invited(tx, { invitation, email, at: START });
    });
    // Ada is an operator as well.
    await accounts.disable(other, { actor: { kind: "operator", id: sub } });
    ids = [other];
    data = await accounts.data(sub, { actor: { kind: "command_line", id: "ada" } });
  });

  it("has a place for every kind of record with personal data, or a reason why not [D-ADM-183]", () => {
    const personal = KINDS.all.filter(({ declaration }) => declaration.personal !== undefined);
    expect(Object.keys(PERSONAL_DATA).toSorted()).toEqual(personal.map(({ name }) => name).toSorted());
    for (const [kind, place] of Object.entries(PERSONAL_DATA))
      if (typeof place === "string")
        expect([kind, Object.keys(data)]).toEqual([kind, expect.arrayContaining([place])]);
      else expect([kind, place.leftOut]).toEqual([kind, expect.stringMatching(/^\S.{9,}$/u)]);
  });

  it("has what each of them holds [D-ADM-183]", () => {
    expect(data).toMatchObject({
      account: { sub, email: "ada@example.com", surname: "Lovelace", services: { "1": 11, "2": null } },
      more: { has_password: true, services_since: { "1": START, "2": START } },
      factors: { app: { added_at: START }, recovery_codes_left: 10 },
      identities: [{ provider: "google", subject: "there", email: "ada@there.example" }],
      remembered_browsers: [{ browser: "Firefox", system: "linux", added_at: START }],
      requests: [{ purpose: "address-change", email: "next@example.com", created_at: START }],
      mails: [{ kind: "sign-in-code", to: "ADA@example.com" }],
      invitations: [{ state: "accepted", email: "ada@example.com", services: { "1": null } }],
    });
    expect(data.consents).toHaveLength(2);
    expect(data.deliveries.length).toBeGreaterThan(0);
    expect(data.deliveries).toMatchObject([
      { type: "PROFILE_CHANGED" },
      { type: "PROFILE_CHANGED" },
      { type: "account.invited", body: { data: { profile: { email: "ada@example.com" } } } },
    ]);
    expect(JSON.stringify(data.deliveries)).toContain(`"user_uuid":"${sub}"`);
    expect(data.audit.map(({ action }) => action)).toEqual(
      expect.arrayContaining(["account.imported", "account.updated", "account.data_exported"]),
    );
  });

  it("has no secret, and nothing of anybody else [D-ADM-184]", () => {
    const text = JSON.stringify(data);
    expect(data.audit.find(({ action }) => action === "account.disabled")).toMatchObject({ subject: null });
    for (const secret of [SECRET, "$argon2", CODE, "sealed", ...codes, ...ids, "grace", "Murray"])
      expect([secret, text.includes(secret)]).toEqual([secret, false]);
  });

  it("is in the audit, also of who asked, before it is shown [D-ADM-184]", async () => {
    expect(data.audit[0]).toMatchObject({
      action: "account.data_exported",
      subject: sub,
      actor: { kind: "command_line", id: "ada" },
    });
    const { total } = {
      total: (await domain.storage.audit.list({ action: "account.data_exported", limit: 9 })).items.length,
    };
    expect(await codeOf(domain.accounts.data("nobody"))).toBe("not_found");
    expect(
      (await domain.storage.audit.list({ action: "account.data_exported", limit: 9 })).items,
    ).toHaveLength(total);
  });
});
