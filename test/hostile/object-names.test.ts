/** Property names of Object, such as `constructor`, in every request that takes a name. */
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import { relyingParty, signIn, type Tokens } from "../flows/relying-party.ts";
import {
  BOB,
  NEWS,
  PARTNER,
  type RunningService,
  startService,
  UNLIMITED,
} from "../flows/running-service.ts";
import {
  CLIENTS,
  claimsOf,
  expectNothingShared,
  inAnyOrder,
  NAMES,
  OTHERS,
  RUNS,
  responseTo,
  UNKNOWN,
} from "./object-names.ts";

let running: RunningService;

beforeAll(async () => {
  // All names are sent at once.
  running = await startService({ config: { rateLimits: UNLIMITED } });
});
afterAll(async () => {
  await running.close();
  expect(running.log.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
});

describe("a property name of Object", () => {
  let tokens: Tokens;

  beforeAll(async () => {
    tokens = await relyingParty(running, "openid", NEWS).tokens({ scope: "openid" });
  });

  it.each(["oauth2", "openid"] as const)(
    "gets the response of an unknown name on %s, anywhere in a request [D-IDENTIFIER-1]",
    async (kind) => {
      const material = { kind, tokens };
      const probes = [...CLIENTS, ...OTHERS].filter(({ kinds = [kind] }) => kinds.includes(kind));
      const expected = new Map<string, unknown>();
      for (const { title, ask } of probes)
        expected.set(title, await responseTo(running[kind], UNKNOWN, ask(UNKNOWN, material)));
      await fc.assert(
        fc.asyncProperty(inAnyOrder, async (names) => {
          for (const { title, ask } of probes) {
            const answers = await Promise.all(
              names.map((name) => responseTo(running[kind], name, ask(name, material))),
            );
            expect([title, ...answers]).toEqual([title, ...names.map(() => expected.get(title))]);
          }
          expectNothingShared();
        }),
        RUNS,
      );
      const statuses = [...expected.values()].map((answer) => Number(Reflect.get(Object(answer), "status")));
      expect(statuses.every((status) => status < 500)).toBe(true);
      const ada = await relyingParty(running, kind, NEWS).userinfo(tokens.access_token);
      expect([ada.status, ada.body["sub"]]).toEqual([200, running.ada.sub]);
    },
  );

  it("is never shown on the consent page, nor is its value [D-IDENTIFIER-1]", async () => {
    const partner = relyingParty(running, "openid", PARTNER);
    const items = async (name: string): Promise<unknown> => {
      const browser = partner.browser();
      const request = { scope: `openid email ${name}`, claims: claimsOf(name), ui_locales: name };
      await browser.get(partner.authorizeUrl(request));
      await signIn(browser, BOB);
      expect([name, browser.status]).toEqual([name, 200]);
      return [...browser.html.replaceAll(name, UNKNOWN).matchAll(/<li[^>]*>([\s\S]*?)<\/li>/g)].map(
        ([, text]) => text?.trim(),
      );
    };
    const expected = await items(UNKNOWN);
    for (const name of NAMES) expect([name, await items(name)]).toEqual([name, expected]);
    expectNothingShared();
  });
});

describe("the clients of a session", () => {
  it("are separate for each session, with any client_id, also when it is read back [D-IDENTIFIER-1]", async () => {
    const { Session } = running.service.provider;
    /** The library's types leave the payload out. */
    const newSession = () =>
      Reflect.construct(Session, [{ accountId: running.ada.sub }]) as InstanceType<typeof Session>;
    await fc.assert(
      fc.asyncProperty(inAnyOrder, async (names) => {
        const [one, other] = [newSession(), newSession()];
        for (const name of names) {
          one.ensureClientContainer(name);
          other.ensureClientContainer(name);
          one.grantIdFor(name, `grant of ${name}`);
          expect([name, other.grantIdFor(name)]).toEqual([name, undefined]);
          expect(one.sidFor(name)).not.toBe(other.sidFor(name));
        }
        await one.save(60);
        const kept = await Session.find(one.jti);
        // The grant of the last authorization is for the request that gave it, and is not kept.
        const sids = names.map((name) => [name, { sid: one.sidFor(name) }]);
        const stored = Object.entries(kept?.authorizations ?? {}) as [string, { sid: string }][];
        expect(new Map(stored.map(([name, { sid }]) => [name, { sid }]))).toEqual(
          new Map(sids as [string, { sid: string }][]),
        );
        for (const name of names) {
          expect(kept?.sidFor(name)).toBe(one.sidFor(name));
          expect(kept?.grantIdFor(name)).toBeUndefined();
          kept?.grantIdFor(name, "another grant");
          expect(other.grantIdFor(name)).toBeUndefined();
        }
        expect(newSession().sidFor("constructor")).toBeUndefined();
        expectNothingShared();
      }),
      RUNS,
    );
  });
});
