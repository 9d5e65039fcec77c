/** `Idempotency-Key`: a repeat changes nothing again, and reads what was made anew. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { Commit, RecordStore } from "../../adapters/record-store.ts";
import { IDEMPOTENCY } from "../../records/administration/idempotency-kinds.ts";
import { StorageUnavailable } from "../../core/errors.ts";
import { beforeTests } from "../closing.ts";
import { openAdministration, type Send } from "./stage.ts";
import { rounds } from "../rounds.ts";

const writes = ({ put = [] }: Commit, name: string): boolean => put.some(({ kind }) => kind === name);

const MORTAL: ReadonlySet<string> = new Set(["get", "list", "scan", "count", "next"]);

/** The call of the storage at which the process dies, before it is made or before it is answered. What it would do later is not done. */
let death: { at: number; readonly when: "before" | "after" } | undefined;

async function mortal(run: () => unknown): Promise<unknown> {
  if (death === undefined) return run();
  death.at -= 1;
  if (death.at > 0) return run();
  if (death.at === 0 && death.when === "after") await run();
  throw new StorageUnavailable("dead");
}

/** What happens around the commits of the next request that writes a record of a key. */
let around: (commit: () => Promise<unknown>) => Promise<unknown> = (commit) => commit();

function watched(store: RecordStore): RecordStore {
  return new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== "function") return member;
      if (name !== "commit")
        return MORTAL.has(String(name))
          ? (...args: readonly unknown[]) => mortal(() => Reflect.apply(member, target, args))
          : (member.bind(target) as unknown);
      return async (commit: Commit): Promise<unknown> => {
        const run = () => mortal(() => Reflect.apply(member, target, [commit]));
        if (!writes(commit, IDEMPOTENCY.name)) return run();
        const first = around;
        around = (next) => next();
        return first(run);
      };
    },
  });
}

const stage = beforeTests(async () => {
  const opened = await openAdministration(
    { providers: { google: { client_id: "news", client_secret: "the-secret-at-a-provider" } } },
    watched,
  );
  await opened.directory.services.put("news", { name: "News", roles: ["editor"] });
  return opened;
});
const administrator: Send = (...args) => stage.as({ role: "administrator" })(...args);
const other: Send = (...args) =>
  stage.as({ role: "administrator", actor: { kind: "token", id: "tok_2" } })(...args);

/** One of three, because a request that comes while another one is under way takes a key of the day, too. */
const oneOfACrowd = (index: number) =>
  ({ role: "administrator", actor: { kind: "token", id: `tok_crowd_${index % 3}` } }) as const;

let key: string;
beforeEach(() => {
  key = crypto.randomUUID();
});
const keyed = (body: object, name = key) => ({ body, headers: { "Idempotency-Key": name } });
const person = () => ({ email: `${crypto.randomUUID()}@example.com` });
const records = () => stage.storage.records.all<Record<string, unknown>>(IDEMPOTENCY.name);
const codeOf = async (answer: ReturnType<Send>): Promise<readonly unknown[]> => {
  const { status, body } = await answer;
  return [status, body.code];
};

describe("a request with an Idempotency-Key", () => {
  it("that is repeated answers what it made as it is now, and makes nothing [D-ADM-43]", async () => {
    const body = person();
    const made = await administrator("POST", "/v1/accounts", keyed(body));
    expect(made.status).toBe(201);
    const sub = String(made.body["sub"]);
    const again = await administrator("POST", "/v1/accounts", keyed(body));
    expect([again.status, again.body, again.headers.location]).toEqual([
      201,
      made.body,
      made.headers.location,
    ]);
    expect(again.headers.etag).toBe(made.headers.etag);
    await stage.accounts.update(sub, { name: "Eve" });
    expect((await administrator("POST", "/v1/accounts", keyed(body))).body).toMatchObject({
      sub,
      name: "Eve",
    });
    const { items } = await stage.calls.audit.list({ account: sub, action: "account.created" });
    expect(items).toHaveLength(1);
    await stage.accounts.delete(sub);
    expect(await codeOf(administrator("POST", "/v1/accounts", keyed(body)))).toEqual([410, "gone"]);
  });

  it("does not repeat another one: of another body, actor, path or key [D-ADM-43]", async () => {
    const { sub } = await stage.accounts.create(person());
    const body = person();
    const made = await administrator("POST", "/v1/accounts", keyed(body));
    const reused = [422, "idempotency_key_reused"];
    expect(await codeOf(administrator("POST", "/v1/accounts", keyed(person())))).toEqual(reused);
    expect(await codeOf(administrator("POST", "/v1/accounts", keyed({})))).toEqual(reused);
    // The order of members is no other body.
    const members = { ...person(), name: "Ada" };
    const one = await administrator("POST", "/v1/accounts", keyed(members, `${key}-2`));
    const turned = Object.fromEntries(Object.entries(members).toReversed());
    expect(await administrator("POST", "/v1/accounts", keyed(turned, `${key}-2`))).toMatchObject({
      body: one.body,
    });
    expect(await codeOf(other("POST", "/v1/accounts", keyed(body)))).toEqual([409, "name_taken"]);
    expect(await codeOf(administrator("POST", "/v1/accounts", keyed(body, `${key} `.repeat(2))))).toEqual([
      409,
      "name_taken",
    ]);
    expect(await administrator("POST", `/v1/accounts/${sub}/disable`, keyed({}))).toMatchObject({
      status: 200,
    });
    const made2 = String(made.body["sub"]);
    expect(await administrator("POST", `/v1/accounts/${made2}/disable`, keyed({}))).toMatchObject({
      status: 200,
    });
    expect(await stage.accounts.find(made2)).toMatchObject({ disabled: true });
  });

  it("keeps neither the request nor its answer [D-ADM-44]", async () => {
    const body = { ...person(), name: "Augusta", password: "correct horse battery staple" };
    const made = await administrator("POST", "/v1/accounts", keyed(body));
    const stored = JSON.stringify(await stage.storage.records.store.scan(IDEMPOTENCY.name, undefined, 1_000));
    for (const value of [...Object.values(body), key]) expect(stored).not.toContain(value);
    expect(await records()).toContainEqual(
      expect.objectContaining({
        state: "done",
        status: 201,
        made: { noun: "accounts", target: [made.body["sub"]] },
      }),
    );
  });

  it("is refused with a malformed one, and others take no notice of it [D-ADM-43]", async () => {
    for (const wrong of ["a".repeat(256), "\u00e4", "a\tb"]) {
      const { status, body } = await administrator("POST", "/v1/accounts", keyed(person(), wrong));
      expect([status, body.errors]).toEqual([
        422,
        [{ header: "Idempotency-Key", detail: expect.any(String) }],
      ]);
    }
    expect(await administrator("POST", "/v1/accounts", keyed(person(), "a".repeat(255)))).toMatchObject({
      status: 201,
    });
    const { sub } = await stage.accounts.create(person());
    const before = (await records()).length;
    for (const name of ["Ada", "Eve"])
      expect(await administrator("PATCH", `/v1/accounts/${sub}`, keyed({ name }))).toMatchObject({
        body: { name },
      });
    expect(await records()).toHaveLength(before);
  });

  it("whose answer held a secret can't be repeated, and without one it can [D-ADM-45]", async () => {
    const client = { name: "C", service: "news", redirect_uris: ["https://c.example/cb"] };
    const made = await administrator("POST", "/v1/clients", keyed({ ...client, client_id: `c-${key}` }));
    expect([made.status, typeof made.body["client_secret"]]).toEqual([201, "string"]);
    expect(
      await codeOf(administrator("POST", "/v1/clients", keyed({ ...client, client_id: `c-${key}` }))),
    ).toEqual([409, "secret_already_shown"]);
    const secret = JSON.stringify(await stage.storage.records.store.scan(IDEMPOTENCY.name, undefined, 1_000));
    expect(secret).not.toContain(String(made.body["client_secret"]));
    const browser = { ...client, client_id: `b-${key}`, kind: "public" };
    for (const status of [201, 201]) {
      const answer = await administrator("POST", "/v1/clients", keyed(browser, `${key}-2`));
      expect([answer.status, answer.body["client_id"]]).toEqual([status, browser.client_id]);
    }
    const rotated = await administrator("POST", `/v1/clients/c-${key}/rotate-secret`, keyed({}, `${key}-3`));
    expect(rotated.status).toBe(200);
    expect(
      await codeOf(administrator("POST", `/v1/clients/c-${key}/rotate-secret`, keyed({}, `${key}-3`))),
    ).toEqual([409, "secret_already_shown"]);
  });

  it("is refused again when it was refused, and carried out once it can be [D-ADM-43]", async () => {
    const body = person();
    const { sub } = await stage.accounts.create(body);
    expect(await codeOf(administrator("POST", "/v1/accounts", keyed(body)))).toEqual([409, "name_taken"]);
    await stage.accounts.delete(sub);
    expect(await administrator("POST", "/v1/accounts", keyed(body))).toMatchObject({ status: 201 });
  });

  it("that found nothing to change does not change what others do later", async () => {
    const { sub } = await stage.accounts.create(person());
    await stage.accounts.disable(sub);
    const path = `/v1/accounts/${sub}/disable`;
    expect(await administrator("POST", path, keyed({}))).toMatchObject({ status: 200 });
    await stage.accounts.enable(sub);
    expect((await administrator("POST", path, keyed({}))).body).toMatchObject({ disabled: false });
    expect(await stage.accounts.find(sub)).toMatchObject({ disabled: false });
  });

  it("reads with today's rights [D-ADM-43]", async () => {
    const { sub } = await stage.accounts.create(person());
    const path = `/v1/accounts/${sub}/disable`;
    const support = stage.as({ role: "support" });
    expect(await support("POST", path, keyed({}))).toMatchObject({ status: 200 });
    expect(await codeOf(stage.as({ role: "viewer" })("POST", path, keyed({})))).toEqual([
      403,
      "role_required",
    ]);
    expect(await codeOf(stage.as({ role: "support", service: "news" })("POST", path, keyed({})))).toEqual([
      403,
      "role_required",
    ]);
    await stage.accounts.assign(sub, "news");
    const limited = stage.as({ role: "administrator", service: "news" });
    const roles = `/v1/accounts/${sub}/set-roles`;
    const set = keyed({ service: "news", roles: ["editor"] }, `${key}-2`);
    const first = await limited("POST", roles, set);
    expect(Object.keys(first.body)).not.toContain("disabled");
    expect((await limited("POST", roles, set)).body).toEqual(first.body);
    await stage.accounts.unassign(sub, "news");
    expect(await codeOf(limited("POST", roles, set))).toEqual([404, "not_found"]);
  });

  it("that changes another storage is carried out again, which does no harm [D-ADM-46]", async () => {
    const { sub } = await stage.accounts.create(person());
    const path = `/v1/accounts/${sub}/end-sessions`;
    for (const status of [204, 204])
      expect(await administrator("POST", path, keyed({}))).toMatchObject({ status });
    const { items } = await stage.calls.audit.list({ account: sub, action: "account.sessions_ended" });
    expect(items).toHaveLength(2);
    expect((await records()).filter(({ made }) => JSON.stringify(made).includes(sub))).toEqual([
      expect.objectContaining({ state: "begun" }),
    ]);
  });

  it("of two in flight one commits, and the other is refused [D-ADM-47]", async () => {
    const body = person();
    let second: ReturnType<typeof codeOf> | undefined;
    around = async (commit) => {
      second = codeOf(administrator("POST", "/v1/accounts", keyed(body)));
      await second;
      return commit();
    };
    expect(await codeOf(administrator("POST", "/v1/accounts", keyed(body)))).toEqual([
      409,
      "idempotency_key_in_use",
    ]);
    expect(await second).toEqual([201, undefined]);
    const { sub } = await stage.accounts.create(person());
    const path = `/v1/accounts/${sub}/disable`;
    around = async (commit) => {
      second = codeOf(administrator("POST", path, keyed({}, `${key}-2`)));
      await second;
      return commit();
    };
    expect(await codeOf(administrator("POST", path, keyed({}, `${key}-2`)))).toEqual([
      409,
      "idempotency_key_in_use",
    ]);
    expect(await second).toEqual([200, undefined]);
  });

  it("makes one record, however many come at once [D-ADM-47]", async () => {
    const bodies = Array.from({ length: 40 }, person);
    const answers = await Promise.all(
      bodies.flatMap((body, index) =>
        [1, 2, 3].map(() => administrator("POST", "/v1/accounts", keyed(body, `${key}-${index}`))),
      ),
    );
    expect(answers.filter(({ status }) => status !== 201 && status !== 409)).toEqual([]);
    for (const { status, body } of answers)
      if (status === 409) expect(body.code).toBe("idempotency_key_in_use");
    for (const { email } of bodies) {
      const account = await stage.accounts.findByLogin(email);
      const made = answers.filter(({ status, body }) => status === 201 && body["email"] === email);
      expect(new Set(made.map(({ body }) => body["sub"]))).toEqual(new Set([account?.sub]));
    }
  });

  it.each([
    ["before", 503],
    ["after", 503],
  ] as const)("whose storage fails %s the commit leaves both or neither [D-ADM-48]", async (when, status) => {
    const body = person();
    around = async (commit) => {
      if (when === "after") await commit();
      throw new StorageUnavailable("gone");
    };
    expect(await administrator("POST", "/v1/accounts", keyed(body))).toMatchObject({ status });
    const made = await stage.accounts.findByLogin(body.email);
    expect(made !== undefined).toBe(when === "after");
    const again = await administrator("POST", "/v1/accounts", keyed(body));
    expect([again.status, again.body["email"]]).toEqual([201, body.email]);
    if (made !== undefined) expect(again.body["sub"]).toBe(made.sub);
  });

  it.each<
    readonly [what: string, action: string, prepare: () => Promise<readonly [path: string, body: object]>]
  >([
    ["creates an account", "account.created", async () => ["/v1/accounts", person()]],
    [
      "blocks one",
      "account.disabled",
      async () => [`/v1/accounts/${(await stage.accounts.create(person())).sub}/disable`, {}],
    ],
    [
      "links an identity",
      "account.identity_linked",
      async () => [
        `/v1/accounts/${(await stage.accounts.create(person())).sub}/identities`,
        { provider: "google", subject: crypto.randomUUID() },
      ],
    ],
  ])(
    "that %s leaves both or neither, at whichever call of the storage the process dies [D-ADM-294]",
    async (_what, action, prepare) => {
      const reached = { before: 0, after: 0 };
      for (const when of ["before", "after"] as const)
        for (let at = 1; ; at += 1) {
          const [path, body] = await prepare();
          const name = crypto.randomUUID();
          const before = await records();
          death = { at, when };
          const { status } = await administrator("POST", path, keyed(body, name));
          const hasDied = death.at <= 0;
          death = undefined;
          const [kept, ...others] = (await records()).filter(
            (each) => !before.some((one) => JSON.stringify(one) === JSON.stringify(each)),
          );
          expect(others).toEqual([]);
          const since = (await stage.calls.audit.list({ action, limit: 1_000 })).items.length;
          // The record of the key, or what follows from it, tells whether the change was made: a repeat makes the other half of neither.
          const again = await administrator("POST", path, keyed(body, name));
          expect([at, when, status, again.status < 300]).toEqual([at, when, status, true]);
          const made = (await stage.calls.audit.list({ action, limit: 1_000 })).items.length - since;
          expect([at, when, made]).toEqual([at, when, kept === undefined ? 1 : 0]);
          expect((await records()).length).toBe(before.length + 1);
          if (!hasDied) break;
          reached[when] = at;
        }
      expect(Math.min(reached.before, reached.after)).toBeGreaterThan(1);
    },
    60_000,
  );

  it("makes one record of each of many keys, each sent twice and all at once [D-ADM-295]", async () => {
    const people = Array.from({ length: rounds(1_000, 10_000) }, (_, index) => ({
      email: `crowd-${index}@example.com`,
    }));
    const answers = await Promise.all(
      people.flatMap((input, index) =>
        [1, 2].map(() =>
          stage
            .perform(oneOfACrowd(index), "accounts", "create", {
              target: [],
              input,
              idempotencyKey: `c-${index}`,
              origin: {},
            })
            .then(
              ({ result }) => String((result as { readonly sub: unknown }).sub),
              (error: unknown) => String((error as { readonly code: unknown }).code),
            ),
        ),
      ),
    );
    const subs = answers.filter((each) => each !== "idempotency_key_in_use");
    expect(subs.filter((each) => !/^[\da-f-]{36}$/u.test(each))).toEqual([]);
    expect(new Set(subs).size).toBe(people.length);
    for (const [index] of people.entries()) {
      const [one, two] = answers.slice(index * 2, index * 2 + 2);
      expect([one, two, one === two || [one, two].includes("idempotency_key_in_use")]).toEqual([
        one,
        two,
        true,
      ]);
    }
  }, 240_000);

  it("is refused beyond 10,000 keys of one token in a day, and that of another is not [D-ADM-49]", async () => {
    const actor = { kind: "token", id: "tok_many" } as const;
    const many = stage.as({ role: "administrator", actor });
    const { email } = person();
    const first = keyed({ email });
    expect(await many("POST", "/v1/accounts", first)).toMatchObject({ status: 201 });
    for (let taken = 1; taken < 10_000; taken += 99)
      await Promise.all(Array.from({ length: 99 }, () => stage.services.limits.idempotencyKey(actor)));
    const refused = await many("POST", "/v1/accounts", keyed(person(), `${key}-2`));
    expect([refused.status, refused.body.code]).toEqual([429, "limit_reached"]);
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
    // A repeat takes none.
    expect(await many("POST", "/v1/accounts", first)).toMatchObject({ status: 201 });
    expect(await other("POST", "/v1/accounts", keyed(person(), `${key}-3`))).toMatchObject({ status: 201 });
  });

  it("is forgotten after a day", async () => {
    const body = person();
    const made = await administrator("POST", "/v1/accounts", keyed(body));
    stage.clock.advance(86_401);
    expect(await codeOf(administrator("POST", "/v1/accounts", keyed(body)))).toEqual([409, "name_taken"]);
    await stage.accounts.delete(String(made.body["sub"]));
    expect(await administrator("POST", "/v1/accounts", keyed(body))).toMatchObject({ status: 201 });
  });
});
