import { CLIENT } from "../../../records/directory/directory-kinds.ts";
import { beforeEach, describe, expect, it } from "@jest/globals";
import { consentOf } from "../../../accounts/clients/consents.ts";
import {
  addArtifacts,
  codeOf,
  consent,
  remainingArtifacts,
  openDomain,
  START,
  type Domain,
  withCommit,
} from "../open-domain.ts";
import type { ClientChanges, NewClient } from "../../../accounts/clients/client-schema.ts";

const basic: NewClient = { name: "News", service: "1", redirect_uris: ["https://news.example/cb"] };
const SECRET = "0123456789abcdef+%&=: /?";

let domain: Domain;
beforeEach(async () => {
  domain = await openDomain();
  for (const key of ["1", "2"]) await domain.directory.services.put(key, { name: key });
});

describe("a client", () => {
  it("is registered with defaults, and its secret is returned once [INTRO-10]", async () => {
    const { client_id, client_secret } = await domain.clients.register(basic);
    expect(client_secret).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(await domain.clients.find(client_id)).toEqual({
      ...basic,
      client_id,
      kind: "web",
      native: false,
      origins: null,
      effective_origins: [],
      jwks: null,
      post_logout_redirect_uris: [],
      client_uri: null,
      policy_uri: null,
      tos_uri: null,
      logo: null,
      backchannel_logout_uri: null,
      grant_types: ["authorization_code", "refresh_token"],
      password_grant: false,
      first_party: true,
      second_factor: "optional",
      providers: null,
      providers_mfa: false,
      refresh_tokens: {},
      error_status: "documented",
      dpop: "optional",
      profile: null,
      id_token_signed_response_alg: "RS256",
      apis: {},
      disabled: false,
      created_at: START,
      updated_at: START,
    });
    expect((await domain.clients.list()).items).toEqual([await domain.clients.find(client_id)]);
    expect(JSON.stringify(await domain.storage.directory.listClients())).not.toContain(client_secret);
    expect(await domain.clients.find("unknown")).toBeUndefined();
    expect(await domain.clients.find("\0")).toBeUndefined();
  });

  it("takes all settings, and both ways to allow the password grant", async () => {
    const settings = {
      ...basic,
      client_id: "n.e_w~s-1",
      client_secret: SECRET,
      post_logout_redirect_uris: ["https://news.example/bye"],
      backchannel_logout_uri: "http://127.0.0.1:9/logout",
      refresh_tokens: { rotate: true, maxAge: 60 },
      error_status: "standard" as const,
    };
    const grants: readonly (readonly [Partial<NewClient>, readonly string[]])[] = [
      [{ password_grant: true }, ["authorization_code", "refresh_token", "password"]],
      [{ grant_types: ["password", "refresh_token"] }, ["refresh_token", "password"]],
      [{ grant_types: ["password", "refresh_token"], password_grant: false }, ["refresh_token"]],
    ];
    for (const [given, grant_types] of grants) {
      expect(await domain.clients.register({ ...settings, ...given })).toEqual({
        client_id: "n.e_w~s-1",
        client_secret: SECRET,
      });
      const { post_logout_redirect_uris, backchannel_logout_uri, refresh_tokens, error_status } = settings;
      expect(await domain.clients.find("n.e_w~s-1")).toMatchObject({
        post_logout_redirect_uris,
        backchannel_logout_uri,
        refresh_tokens,
        error_status,
        grant_types,
      });
      await domain.clients.remove("n.e_w~s-1");
    }
  });

  it("of an unknown service or with a used id is refused", async () => {
    expect(await codeOf(domain.clients.register({ ...basic, service: "9" }))).toBe("unknown_reference");
    await domain.clients.register({ ...basic, client_id: "news" });
    expect(await codeOf(domain.clients.register({ ...basic, client_id: "news" }))).toBe("already_exists");
  });

  it("is refused with invalid settings: the error names the option, not the value [D-IDENTIFIER-4, D-ACCOUNT-13, D-ACCOUNT-14]", async () => {
    await domain.clients.register({ ...basic, client_id: "c" });
    const wrong: Record<string, readonly unknown[]> = {
      client_id: ["", "a b", "a:b", "ä", "a/b", "a".repeat(129), 1],
      client_secret: ["short", "é".repeat(40), "a".repeat(15), `${"a".repeat(20)}\n`, "a".repeat(513), 5],
      redirect_uris: [
        [],
        "https://a.example/cb",
        ["nope"],
        ["https://a/x", "https://a/x"],
        Array.from({ length: 101 }, (_, i) => `https://a/${i}`),
        null,
      ],
      post_logout_redirect_uris: [["javascript:alert(1)"], ["https://a/#x"]],
      backchannel_logout_uri: ["http://a.example/", "file:///x"],
      name: ["", "a\0", null],
      service: ["", "a b", null, 1],
      grant_types: [[], ["implicit"], ["password", "password"], "password"],
      password_grant: ["yes", 1],
      first_party: [0],
      refresh_tokens: [
        { rotate: 1 },
        { reuseWindow: -1 },
        { maxAge: 0 },
        { maxAge: Number.POSITIVE_INFINITY },
        { rotation: true },
        5,
      ],
      error_status: ["other", 401],
      id_token_signed_response_alg: ["none", "HS256", "RS512", "", null, ["ES256"], "__proto__"],
    };
    for (const [option, values] of Object.entries(wrong)) {
      for (const value of values) {
        const message = await codeOf(domain.clients.register({ ...basic, [option]: value }));
        expect(message).toMatch(
          new RegExp(`^TypeError client\\.${option}(?:\\[\\d\\]|\\.\\w+)*: (?:must|unknown key)`),
        );
        if (typeof value === "string" && value.length > 4 && option !== "error_status")
          expect(message).not.toContain(value);
        // These can't be changed.
        if (["client_id", "id_token_signed_response_alg"].includes(option)) continue;
        expect(await codeOf(domain.clients.update("c", { [option]: value }))).toContain(
          `TypeError client.${option}`,
        );
      }
    }
    for (const third of [{ password_grant: true }, { grant_types: ["password"] }] as const) {
      const message = "a third-party client can't have the password grant";
      expect(await codeOf(domain.clients.register({ ...basic, first_party: false, ...third }))).toContain(
        message,
      );
      await domain.clients.update("c", { password_grant: true });
      expect(await codeOf(domain.clients.update("c", { first_party: false }))).toContain(message);
    }
    expect((await domain.clients.list()).items).toHaveLength(1);
  });
});

describe("a change of a client", () => {
  it("changes the named fields, writes nothing without a change, and survives concurrent changes", async () => {
    const { client_id } = await domain.clients.register(basic);
    domain.clock.seconds += 9;
    const changes: ClientChanges[] = [
      { name: "N" },
      { service: "2" },
      { redirect_uris: ["https://b/cb"] },
      { error_status: "standard" },
      { password_grant: true },
      { refresh_tokens: { sliding: true } },
      { backchannel_logout_uri: "https://b/bc" },
    ];
    await Promise.all(changes.map((change) => domain.clients.update(client_id, change)));
    const client = await domain.clients.find(client_id);
    expect(client).toMatchObject(
      Object.assign({ updated_at: START + 9, created_at: START }, ...changes) as object,
    );
    domain.clock.seconds += 9;
    for (const change of changes) await domain.clients.update(client_id, change);
    expect(await domain.clients.find(client_id)).toEqual(client);
    expect(await codeOf(domain.clients.update(client_id, { service: "9" }))).toBe("unknown_reference");
    expect(await codeOf(domain.clients.update("unknown", { name: "N" }))).toBe("not_found");
  });

  it("is decided again after a concurrent write", async () => {
    const { client_id } = await domain.clients.register(basic);
    let sneak = true;
    const slow = domain.reopen({
      storage: (storage) =>
        withCommit(
          storage,
          async () => {
            if (!sneak) return;
            sneak = false;
            await domain.clients.update(client_id, { service: "2" });
          },
          CLIENT,
        ),
    });
    await slow.clients.update(client_id, { name: "second" });
    expect(await domain.clients.find(client_id)).toMatchObject({ name: "second", service: "2" });
  });

  it("disables and enables; unknown clients are not_found, and a removal is false [D-RESULT-1]", async () => {
    const { client_id } = await domain.clients.register(basic);
    for (const disabled of [true, true, false, false]) {
      expect(await domain.clients[disabled ? "disable" : "enable"](client_id)).toMatchObject({ disabled });
      expect((await domain.clients.find(client_id))?.disabled).toBe(disabled);
    }
    expect([
      await codeOf(domain.clients.disable("x")),
      await codeOf(domain.clients.enable("x")),
      await domain.clients.remove("x"),
    ]).toEqual(["not_found", "not_found", false]);
  });
});

describe("removing a client", () => {
  it("ends its tokens and keeps assignments [D-ACCOUNT-15]", async () => {
    const { client_id } = await domain.clients.register(basic);
    const { sub } = await domain.accounts.import({ email: "a@b", services: { "1": 5 } });
    await addArtifacts(domain, sub, [client_id, "other"]);
    expect(await domain.clients.remove(client_id)).toBe(true);
    expect(await domain.clients.find(client_id)).toBeUndefined();
    expect(await remainingArtifacts(domain, sub, [client_id, "other"])).toEqual(["session", "other"]);
    expect((await domain.accounts.find(sub))?.services).toEqual({ "1": 5 });
    expect(await domain.clients.remove(client_id)).toBe(false);
  });

  it("leaves nothing for a new client with the same id", async () => {
    const third = { ...basic, client_id: "third", first_party: false };
    await domain.clients.register(third);
    const { sub } = await domain.accounts.create({ email: "a@b" });
    await consent(domain, sub, "third", ["email"], []);
    await domain.clients.remove("third");
    await addArtifacts(domain, sub, ["third"]);
    await domain.clients.register(third);
    expect(await remainingArtifacts(domain, sub, ["third"])).toEqual(["session"]);
    const record = await domain.accounts.record(sub);
    expect(record && consentOf(record, "third")).toEqual({ scopes: [], claims: [] });
  });
});

describe("the internal client", () => {
  const internal = { client_id: "~account", name: "Account", redirect_uris: ["https://a/cb"] };

  it("can't be found, listed or changed from outside", async () => {
    await Promise.all([domain.clients.putInternal(internal), domain.reopen().clients.putInternal(internal)]);
    domain.clock.seconds += 1;
    const same = await domain.clients.putInternal(internal);
    expect([same.record.updated_at, same.replaced]).toEqual([START, undefined]);
    const moved = await domain.clients.putInternal({ ...internal, redirect_uris: ["https://b/cb"] });
    expect([moved.record.updated_at, moved.replaced?.redirect_uris]).toEqual([START + 1, ["https://a/cb"]]);
    expect(await domain.clients.record("~account")).toMatchObject({
      service: null,
      secrets: [],
      first_party: true,
    });
    expect([await domain.clients.find("~account"), (await domain.clients.list()).items]).toEqual([
      undefined,
      [],
    ]);
    expect(await domain.clients.remove("~account")).toBe(false);
    expect(await codeOf(domain.clients.disable("~account"))).toBe("not_found");
    expect(await codeOf(domain.clients.update("~account", { name: "x" }))).toBe("not_found");
    expect(await codeOf(domain.clients.rotateSecret("~account"))).toBe("not_found");
    expect(await codeOf(domain.clients.register({ ...basic, client_id: "~account" }))).toBe("already_exists");
  });
});
