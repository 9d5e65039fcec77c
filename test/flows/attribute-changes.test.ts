/** A configuration whose attributes change: what earlier consents, codes and tokens still reveal. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { AccountsInput } from "../../config/attributes.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import { newFolder } from "../closing.ts";
import type { StorageConfig } from "../servers/storage.ts";
import {
  attributesIn,
  attributesOn,
  INTERACTIONS,
  type Name,
  standardUserinfo,
  VALUES,
} from "./attribute-party.ts";
import { readTokens, type TestClient, type TestTokens } from "../../testing/test-client.ts";
import { clientAt, signIn } from "./clients.ts";
import {
  ADA,
  NEWS,
  PARTNER,
  type RunningService,
  startService,
  startWithClock,
  storageIn,
} from "./running-service.ts";
import { API, ARTICLES } from "./sample-apis.ts";

type Attributes = NonNullable<AccountsInput["attributes"]>;

const DEPARTMENT = { type: "text", label: "Department", scope: "org" } as const;
const DESK = { type: "integer", label: "Desk", scope: "org" } as const;
const BOTH = { department: DEPARTMENT, desk: DESK };
const SCOPE = "openid org";

let storage: StorageConfig;
let running: RunningService;

async function start(attributes: Attributes, port?: number): Promise<void> {
  const config = { ...storage, accounts: { attributes }, interactions: INTERACTIONS };
  running = await startService({ config, ...(port !== undefined && { port }) });
}

/** Starts the service again with another configuration. */
async function restart(attributes: Attributes): Promise<void> {
  const port = Number(new URL(running.origin).port);
  await running.close();
  await start(attributes, port);
}

beforeEach(async () => {
  storage = await storageIn(newFolder());
  await start(BOTH);
  const { department, desk } = VALUES;
  await running.service.accounts.update(running.ada.sub, { attributes: { department, desk } });
});

const news = (): TestClient => clientAt(running, "openid", NEWS);
const partner = (): TestClient => clientAt(running, "openid", PARTNER);

async function readWith(token: unknown): Promise<readonly Name[]> {
  const { status, body } = await standardUserinfo(running, token);
  expect(status).toBe(200);
  return attributesIn(body);
}

/** What the token reads, and what a token of its refresh token reads. */
async function readable(
  party: TestClient,
  { access_token, refresh_token }: TestTokens,
): Promise<readonly (readonly Name[])[]> {
  const refreshed = readTokens(await party.refresh(refresh_token));
  return [await readWith(access_token), await readWith(refreshed.access_token)];
}

/** Opens a request of the third party. @returns what the page asks for; `undefined` if there is none. */
async function asked(browser: Browser, parameters = {}): Promise<readonly Name[] | undefined> {
  await browser.get(partner().authorizeUrl({ scope: SCOPE, ...parameters }));
  if (browser.hasForm("password")) await signIn(browser);
  return browser.hasForm("decision") ? attributesOn(browser) : undefined;
}

const codeAt = (browser: Browser): string => browser.location?.searchParams.get("code") ?? "";

async function allow(browser: Browser): Promise<TestTokens> {
  await browser.submit(browser.form("decision"), { decision: "allow" });
  return readTokens(await partner().exchange(codeAt(browser)));
}

describe("an attribute that joins a scope", () => {
  it("is left out for a third party until a page has asked [D-ATTR-4]", async () => {
    await restart({ desk: DESK });
    const browser = partner().browser();
    expect(await asked(browser)).toEqual(["desk"]);
    const tokens = await allow(browser);
    await restart(BOTH);
    expect(await readable(partner(), tokens)).toEqual([["desk"], ["desk"]]);
    // No page: the answer is a code, and the attribute is left out.
    expect(await asked(browser, { prompt: "none" })).toBeUndefined();
    const silent = readTokens(await partner().exchange(codeAt(browser)));
    expect(await readable(partner(), silent)).toEqual([["desk"], ["desk"]]);
    // Who refuses is asked again.
    for (const time of ["once", "twice"]) {
      expect([time, await asked(browser)]).toEqual([time, ["department", "desk"]]);
      await browser.submit(browser.form("decision"), { decision: "deny" });
      expect(browser.location?.searchParams.get("error")).toBe("access_denied");
    }
    expect(await readable(partner(), silent)).toEqual([["desk"], ["desk"]]);
    expect(await asked(browser)).toEqual(["department", "desk"]);
    expect(await readWith((await allow(browser)).access_token)).toEqual(["department", "desk"]);
    expect(await asked(browser)).toBeUndefined();
    expect(codeAt(browser)).not.toBe("");
  });

  it("is asked for by the parameter claims, too [D-ATTR-4]", async () => {
    await restart({ desk: DESK });
    const browser = partner().browser();
    const claims = JSON.stringify({ userinfo: { department: { essential: true }, desk: null } });
    const wish = { scope: "openid", claims };
    expect(await asked(browser, wish)).toEqual(["desk"]);
    const tokens = await allow(browser);
    await restart(BOTH);
    expect(await readable(partner(), tokens)).toEqual([["desk"], ["desk"]]);
    expect(await asked(browser, wish)).toEqual(["department", "desk"]);
  });

  it("is read by first parties at once [D-ATTR-4]", async () => {
    await restart({ desk: DESK });
    const tokens = await news().signIn(ADA, { scope: SCOPE });
    await restart(BOTH);
    expect(await readable(news(), tokens)).toEqual([
      ["department", "desk"],
      ["department", "desk"],
    ]);
  });
});

describe("an attribute that is closed between authorization and refresh", () => {
  const closed: Readonly<Record<string, Attributes>> = {
    "is not configured any more": { desk: DESK },
    "has other readers": { ...BOTH, department: { ...DEPARTMENT, readers: ["2"] } },
    "has no scope any more": { desk: DESK, department: { type: "text", label: "Department" } },
    "has another type": { ...BOTH, department: { ...DEPARTMENT, type: "integer" } },
  };
  it.each(Object.entries(closed))(
    "because it %s is left out at once [D-ATTR-3, D-ATTR-9]",
    async (_what, attributes) => {
      const browser = partner().browser();
      expect(await asked(browser)).toEqual(["department", "desk"]);
      const [own, third] = [await news().signIn(ADA, { scope: SCOPE }), await allow(browser)];
      const code = await news().code(ADA, { scope: SCOPE });
      await restart(attributes);
      expect(await readable(news(), own)).toEqual([["desk"], ["desk"]]);
      expect(await readable(partner(), third)).toEqual([["desk"], ["desk"]]);
      expect(await readWith(readTokens(await news().exchange(code)).access_token)).toEqual(["desk"]);
      // The value is kept, and so is what the person has allowed.
      await restart(BOTH);
      expect(await readWith(third.access_token)).toEqual(["department", "desk"]);
    },
  );

  it("because the person may not see it, is left out for third parties [D-ATTR-5]", async () => {
    const browser = partner().browser();
    await asked(browser);
    const [own, third] = [await news().signIn(ADA, { scope: SCOPE }), await allow(browser)];
    await restart({ ...BOTH, department: { ...DEPARTMENT, visible: false, readers: ["1", "3"] } });
    expect(await readable(news(), own)).toEqual([
      ["department", "desk"],
      ["department", "desk"],
    ]);
    expect(await readable(partner(), third)).toEqual([["desk"], ["desk"]]);
  });

  it("with all the others, leaves tokens that say who the person is [D-ATTR-9]", async () => {
    const tokens = await news().signIn(ADA, { scope: SCOPE });
    const code = await news().code(ADA, { scope: SCOPE });
    await restart({});
    expect(await readable(news(), tokens)).toEqual([[], []]);
    readTokens(await news().exchange(code));
  });
});

describe("a scope", () => {
  const scopes = { org: "Read the organization" };

  it("of an attribute is taken: no API gets it [D-ATTR-8]", async () => {
    const { apis } = running.service.directory;
    await expect(apis.put(ARTICLES, { ...API, introspection: [], scopes })).rejects.toThrow(
      /org.*department/,
    );
  });

  it("of an API is taken: the service does not start with it, and names both [D-ATTR-8]", async () => {
    await restart({});
    await running.service.directory.apis.put(ARTICLES, { ...API, introspection: [], scopes });
    await running.close();
    const deployments = { openid: { url: running.openid } };
    const config = { ...storage, proxy: false, deployments, accounts: { attributes: BOTH } };
    await expect(startWithClock(config)).rejects.toThrow(
      /config\.accounts\.attributes\.department\.scope.*https:\/\/articles\.example\//,
    );
  });
});
