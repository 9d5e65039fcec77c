import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { SYSTEM } from "../../../lib/audit/audit-event.ts";
import type { ClientChanges, NewClient } from "../../../lib/domain/client.ts";
import { consentOf } from "../../../lib/domain/consents.ts";
import { addArtifacts, codeOf, consent, leftArtifacts, openWorld, START, type World } from "./world.ts";

const basic: NewClient = { name: "News", service: "1", redirect_uris: ["https://news.example/cb"] };
const SECRET = "0123456789abcdef+%&=: /?";

let world: World;
beforeEach(async () => {
  world = await openWorld();
  for (const key of ["1", "2"]) await world.directory.services.put(key, { name: key });
});
afterEach(() => world.storage.close());

describe("a client", () => {
  it("is registered with defaults, and shows its secret once [INTRO-10]", async () => {
    const { client_id, client_secret } = await world.clients.register(basic);
    expect(client_secret).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(await world.clients.find(client_id)).toEqual({
      ...basic,
      client_id,
      post_logout_redirect_uris: [],
      backchannel_logout_uri: null,
      grant_types: ["authorization_code", "refresh_token"],
      password_grant: false,
      first_party: true,
      refresh_tokens: {},
      error_status: "documented",
      id_token_signed_response_alg: "RS256",
      disabled: false,
      created_at: START,
      updated_at: START,
    });
    expect(await world.clients.list()).toEqual([await world.clients.find(client_id)]);
    expect(JSON.stringify(await world.storage.directory.listClients())).not.toContain(client_secret);
    expect(await world.clients.find("unknown")).toBeUndefined();
    expect(await world.clients.find("\0")).toBeUndefined();
  });

  it("takes all settings, and the password grant under both of its names", async () => {
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
      expect(await world.clients.register({ ...settings, ...given })).toEqual({
        client_id: "n.e_w~s-1",
        client_secret: SECRET,
      });
      const { post_logout_redirect_uris, backchannel_logout_uri, refresh_tokens, error_status } = settings;
      expect(await world.clients.find("n.e_w~s-1")).toMatchObject({
        post_logout_redirect_uris,
        backchannel_logout_uri,
        refresh_tokens,
        error_status,
        grant_types,
      });
      await world.clients.remove("n.e_w~s-1");
    }
  });

  it("of an unknown service, or with an id that is taken, is an error; of fifty at once one is registered", async () => {
    expect(await codeOf(world.clients.register({ ...basic, service: "9" }))).toBe("unknown_reference");
    const outcomes = await Promise.all(
      Array.from({ length: 50 }, () =>
        world.clients.register({ ...basic, client_id: "news" }).then(
          () => "ok",
          (error: unknown) => (error as { code: string }).code,
        ),
      ),
    );
    expect(outcomes.filter((outcome) => outcome === "ok")).toHaveLength(1);
    expect(outcomes.filter((outcome) => outcome === "already_exists")).toHaveLength(49);
  });

  it("is refused with wrong settings: the option is named, the value is not", async () => {
    await world.clients.register({ ...basic, client_id: "c" });
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
    };
    for (const [option, values] of Object.entries(wrong)) {
      for (const value of values) {
        const message = await codeOf(world.clients.register({ ...basic, [option]: value }));
        expect(message).toMatch(new RegExp(`^TypeError client\\.${option}[.\\d\\w]*: (?:must|unknown key)`));
        if (typeof value === "string" && value.length > 4 && option !== "error_status")
          expect(message).not.toContain(value);
        if (option === "client_id") continue;
        expect(await codeOf(world.clients.update("c", { [option]: value }))).toContain(
          `TypeError changes.${option}`,
        );
      }
    }
    for (const third of [{ password_grant: true }, { grant_types: ["password"] }] as const) {
      const message = "a third-party client can't have the password grant";
      expect(await codeOf(world.clients.register({ ...basic, first_party: false, ...third }))).toContain(
        message,
      );
      await world.clients.update("c", { password_grant: true });
      expect(await codeOf(world.clients.update("c", { first_party: false }))).toContain(message);
    }
    expect(await world.clients.list()).toHaveLength(1);
  });
});

describe("a change of a client", () => {
  it("changes what is named, writes nothing when nothing changes, and is not lost among many", async () => {
    const { client_id } = await world.clients.register(basic);
    world.clock.seconds += 9;
    const changes: ClientChanges[] = [
      { name: "N" },
      { service: "2" },
      { redirect_uris: ["https://b/cb"] },
      { error_status: "standard" },
      { password_grant: true },
      { refresh_tokens: { sliding: true } },
      { backchannel_logout_uri: "https://b/bc" },
    ];
    await Promise.all(changes.map((change) => world.clients.update(client_id, change)));
    const client = await world.clients.find(client_id);
    expect(client).toMatchObject(
      Object.assign({ updated_at: START + 9, created_at: START }, ...changes) as object,
    );
    const version = (await world.clients.record(client_id))?.version;
    for (const change of changes) await world.clients.update(client_id, change);
    expect((await world.clients.record(client_id))?.version).toBe(version);
    expect(await codeOf(world.clients.update(client_id, { service: "9" }))).toBe("unknown_reference");
    expect(await codeOf(world.clients.update("unknown", { name: "N" }))).toBe("not_found");
  });

  it("is decided again when somebody was faster between reading and writing", async () => {
    const { client_id } = await world.clients.register(basic);
    let sneak = true;
    const slow = world.again({
      storage: (storage) => ({
        ...storage,
        directory: {
          ...storage.directory,
          async findClient(wanted) {
            const record = await storage.directory.findClient(wanted);
            if (sneak) {
              sneak = false;
              await world.clients.update(client_id, { service: "2" });
            }
            return record;
          },
        },
      }),
    });
    await slow.clients.update(client_id, { name: "second" });
    expect(await world.clients.find(client_id)).toMatchObject({ name: "second", service: "2" });
  });

  it("disables and enables; an unknown one is false", async () => {
    const { client_id } = await world.clients.register(basic);
    for (const disabled of [true, true, false, false]) {
      expect(await world.clients[disabled ? "disable" : "enable"](client_id)).toBe(true);
      expect((await world.clients.find(client_id))?.disabled).toBe(disabled);
    }
    expect([
      await world.clients.disable("x"),
      await world.clients.enable("x"),
      await world.clients.remove("x"),
    ]).toEqual([false, false, false]);
  });
});

describe("removing a client", () => {
  it("ends its tokens and keeps assignments [D-ACCOUNT-15]", async () => {
    const { client_id } = await world.clients.register(basic);
    const { sub } = await world.accounts.import({ email: "a@b", services: { "1": 5 } });
    await addArtifacts(world, sub, [client_id, "other"]);
    expect(await world.clients.remove(client_id)).toBe(true);
    expect(await world.clients.find(client_id)).toBeUndefined();
    expect(await leftArtifacts(world, sub, [client_id, "other"])).toEqual(["session", "other"]);
    expect((await world.accounts.find(sub))?.services).toEqual({ "1": 5 });
    expect(await world.clients.remove(client_id)).toBe(false);
  });

  it("leaves nothing that a new client of the same id could take over", async () => {
    const third = { ...basic, client_id: "third", first_party: false };
    await world.clients.register(third);
    const { sub } = await world.accounts.create({ email: "a@b" });
    await consent(world, sub, "third", ["email"], []);
    await world.clients.remove("third");
    await addArtifacts(world, sub, ["third"]);
    await world.clients.register(third);
    expect(await leftArtifacts(world, sub, ["third"])).toEqual(["session"]);
    const record = await world.accounts.record(sub);
    expect(record && consentOf(record, "third")).toEqual({ scopes: [], claims: [] });
  });
});

describe("the internal client", () => {
  const internal = { client_id: "~account", name: "Account", redirect_uris: ["https://a/cb"] };

  it("is known to the service only: not found, not listed, not changed from outside", async () => {
    await Promise.all([world.clients.keepInternal(internal), world.again().clients.keepInternal(internal)]);
    expect((await world.clients.keepInternal(internal)).version).toBe(1);
    expect((await world.clients.keepInternal({ ...internal, redirect_uris: ["https://b/cb"] })).version).toBe(
      2,
    );
    expect(await world.clients.record("~account")).toMatchObject({
      service: null,
      secrets: [],
      first_party: true,
    });
    expect([await world.clients.find("~account"), await world.clients.list()]).toEqual([undefined, []]);
    expect(await world.clients.remove("~account")).toBe(false);
    expect(await world.clients.disable("~account")).toBe(false);
    expect(await codeOf(world.clients.update("~account", { name: "x" }))).toBe("not_found");
    expect(await codeOf(world.clients.rotateSecret("~account"))).toBe("not_found");
    expect(await codeOf(world.clients.register({ ...basic, client_id: "~account" }))).toBe("already_exists");
  });
});

describe("consents", () => {
  it("add up, and are written only when something is new", async () => {
    const { sub } = await world.accounts.create({ email: "a@b" });
    await consent(world, sub, "__proto__", ["email"], ["name"]);
    await consent(world, sub, "__proto__", ["profile", "email"], []);
    const record = await consent(world, sub, "__proto__", ["email"], ["name"]);
    expect(consentOf(record, "__proto__")).toEqual({ scopes: ["email", "profile"], claims: ["name"] });
    expect(record.version).toBe(3);
    expect(consentOf(record, "constructor")).toEqual({ scopes: [], claims: [] });
  });

  it("are refused once the session in which they are given, or the account, has ended", async () => {
    const { sub } = await world.accounts.create({ email: "a@b" });
    const { sessions_generation: sessionsGeneration } = (await world.accounts.record(sub))!;
    const given = { scopes: ["email"], claims: [], sessionsGeneration };
    const refused = (): Promise<unknown> => codeOf(world.accounts.rememberConsent(sub, "c", given, SYSTEM));
    await world.accounts.endSessions(sub);
    expect(await refused()).toBe("condition_failed");
    expect(consentOf((await world.accounts.record(sub))!, "c")).toEqual({ scopes: [], claims: [] });
    await world.accounts.delete(sub);
    expect(await refused()).toBe("condition_failed");
  });
});
