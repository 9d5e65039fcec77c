/** `factors list` and `factors remove`, beside a running service that mails the person. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { CommandContext } from "../../cli/program/command.ts";
import { createSystemClock } from "../../core/clock.ts";
import { KINDS } from "../../records/all-kinds.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import { PASSKEY } from "../../records/factors/factor-kinds.ts";
import { Records } from "../../records/records.ts";
import { NEWS, storageIn } from "../flows/running-service.ts";
import { clientAt } from "../flows/clients.ts";
import { type SelfService, startSelfService } from "../interactions/self-service.ts";
import type { StorageConfig } from "../servers/storage.ts";
import { here, type Outcome } from "./here.ts";
import { withStores } from "./stage.ts";

const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
/** Credential ids may begin like an option. */
const IDS = ["-rfQ0LmYb1o", "Zx81_Qk-a7A"] as const;
/** What a terminal would obey; a person chooses the name of a passkey. */
const CONTROLS = ["\u001b", "\u202e"] as const;
const NAME = `Phone${CONTROLS[0]}[2J${CONTROLS[1]}`;

let folder: string;
let storage: StorageConfig;
let running: SelfService;
let email: string;
let sub: string;
let people = 0;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "sign-in-factors-"));
  storage = await storageIn(folder);
  running = await startSelfService(undefined, { config: storage });
  const deployments = { oauth2: { url: running.oauth2 }, openid: { url: running.openid } };
  const mail = { url: "smtp://127.0.0.1:9", from: "sign-in@example.com" };
  const config = JSON.stringify({ deployments, mail, ...storage });
  writeFileSync(join(folder, "config.json"), config, { mode: 0o600 });
});
afterAll(async () => {
  await running.close();
  rmSync(folder, { recursive: true });
});
beforeEach(async () => {
  people += 1;
  email = `person${people}@example.com`;
  ({ sub } = await running.service.accounts.create({ email, email_verified: true }));
});

function factors(words: readonly string[], context: Partial<CommandContext> = {}): Promise<Outcome> {
  const [verb = "", ...rest] = words;
  return here(["factors", verb, "--config", join(folder, "config.json"), ...rest], context);
}

/** Stores passkeys as an enrolment does, but without a real key. */
async function putPasskeys(...ids: readonly string[]): Promise<void> {
  await withStores(storage, async (stores) => {
    const records = new Records(stores.storage, createSystemClock(), KINDS);
    await records.transact(async (tx) => {
      const account = (await tx.get(ACCOUNT.ref(sub))) as AccountRecord;
      const { generation = 0 } = account.ways;
      const passkey = { user_handle: "A".repeat(43), ids };
      const ways = { ...account.ways, generation: generation + 1, passkey };
      tx.put(ACCOUNT.record({ ...account, ways }));
      for (const id of ids)
        tx.overwrite(
          PASSKEY.record({
            id,
            sub,
            public_key: "AAAA",
            counter: 0,
            transports: [],
            backup_eligible: true,
            backed_up: id === IDS[0],
            rp_id: "127.0.0.1",
            name: NAME,
            added_at: 1_750_000_000,
            last_used_at: null,
          }),
        );
    });
  });
}

async function addApp(): Promise<void> {
  await running.service.accounts.addApp(sub, { secret: SECRET });
  await running.mailTo(email);
}

const audit = async (action: string) =>
  (await running.service.audit.list({ account: sub, action: action })).items;

describe("factors list", () => {
  it("shows each factor with its times, and as JSON what the library returns [D-FACTOR-44]", async () => {
    await addApp();
    await putPasskeys(...IDS);
    const table = await factors(["list", sub]);
    expect(table).toMatchObject({ code: 0, err: "" });
    expect(table.out.split("\n").map((line) => line.trimEnd().split(/ {2,}/u))).toEqual([
      ["kind", "name", "added_at", "last_used_at", "note", "id"],
      ["app", "-", expect.stringMatching(/^20\d\d-/u), "-", "-", "-"],
      ["passkey", expect.stringContaining("Phone"), "2025-06-15 15:06:40Z", "-", "backed up", IDS[0]],
      ["passkey", expect.stringContaining("Phone"), "2025-06-15 15:06:40Z", "-", "-", IDS[1]],
      ["recovery codes", "-", "-", "-", "10 left", "-"],
      [""],
    ]);
    for (const control of CONTROLS) expect(table.out).not.toContain(control);
    expect(table.out).not.toContain(SECRET);
    const { out } = await factors(["list", sub, "--json"]);
    expect(JSON.parse(out)).toEqual(await running.service.accounts.factors(sub));
  });

  it("says that there are none, and that there is no such account", async () => {
    expect(await factors(["list", sub])).toEqual({ code: 0, out: "", err: "Nothing found.\n" });
    const unknown = await factors(["list", crypto.randomUUID()]);
    expect(unknown).toEqual({ code: 1, out: "", err: "There is no such account.\n" });
  });
});

describe("factors remove", () => {
  it("asks first, and then removes one factor, ends the sessions, mails the person and is in the audit [D-FACTOR-40, D-FACTOR-44]", async () => {
    const password = "a password of the owner";
    await running.service.accounts.setPassword(sub, password);
    await running.mailTo(email);
    const news = clientAt(running, "openid", NEWS);
    const browser = news.browser();
    await news.signIn({ username: email, password, browser });
    await addApp();
    await putPasskeys(...IDS);
    const questions: string[] = [];
    const answer = (yes: boolean) => ({
      confirm: async (question: string) => questions.push(question) > 0 && yes,
    });
    const no = await factors(["remove", sub, "app"], answer(false));
    expect(no).toEqual({ code: 1, out: "", err: "Nothing was changed.\n" });
    expect(await running.service.accounts.factors(sub)).toMatchObject({ app: expect.anything() });
    const yes = await factors(["remove", sub, "app"], answer(true));
    expect(yes).toEqual({ code: 0, out: `Removed factor: ${sub} app\n`, err: "" });
    expect((await running.mailTo(email)).text).toContain("authenticator app");
    const passkey = await factors(["remove", sub, "--", IDS[0]], answer(true));
    expect(passkey).toMatchObject({ code: 0, err: "" });
    await running.mailTo(email);
    for (const control of CONTROLS) expect(questions.join() + passkey.out).not.toContain(control);
    expect(await running.service.accounts.factors(sub)).toMatchObject({
      app: null,
      passkeys: [{ id: IDS[1] }],
      recovery_codes_left: 10,
    });
    expect(await audit("account.factor_removed")).toMatchObject([
      { actor: { kind: "command_line" }, detail: { factor: "passkey" } },
      { actor: { kind: "command_line" }, detail: { factor: "app" } },
    ]);
    expect(await news.silently(browser)).toBe("login_required");
  });

  it("removes all, with the recovery codes, and prints one JSON object [D-FACTOR-44]", async () => {
    await addApp();
    await putPasskeys(IDS[0]);
    const { code, out } = await factors(["remove-all", sub, "--yes", "--json"]);
    expect([code, JSON.parse(out)]).toEqual([0, { sub }]);
    await running.mailTo(email);
    expect(await running.service.accounts.factors(sub)).toEqual({
      app: null,
      passkeys: [],
      recovery_codes_left: 0,
    });
    expect(await audit("account.factors_removed")).toMatchObject([{ actor: { kind: "command_line" } }]);
  });

  it("by two commands at once removes it once, and mails once", async () => {
    await addApp();
    const before = running.sent.filter(({ to }) => to === email).length;
    const words = ["remove-all", sub, "--yes"];
    const outcomes = await Promise.all([factors(words), factors(words)]);
    expect(outcomes.map(({ code }) => code).toSorted((one, two) => one - two)).toEqual([0, 1]);
    await running.mailTo(email);
    expect(running.sent.filter(({ to }) => to === email)).toHaveLength(before + 1);
    expect(await audit("account.factors_removed")).toHaveLength(1);
  });

  it.each([
    ["says nothing", [], 2, /^FACTOR is missing/u],
    ["says two things", ["app", "key"], 2, /^Too many arguments/u],
    ["names another passkey", [IDS[1]], 1, /^There is no such second factor/u],
    ["names a member of every object", ["__proto__"], 1, /^There is no such second factor/u],
    ["names a passkey without an id", [""], 1, /^There is no such second factor/u],
    ["asks nobody", ["app"], 2, /^There is no terminal to ask on/u],
  ] as const)("changes nothing if it %s: %j", async (_what, words, status, says) => {
    await addApp();
    await putPasskeys(IDS[0]);
    const confirmed = status === 1 ? ["--yes"] : [];
    const { code, out, err } = await factors(["remove", sub, ...words, ...confirmed]);
    expect([code, out, err]).toEqual([status, "", expect.stringMatching(says)]);
    expect(await running.service.accounts.factors(sub)).toMatchObject({
      app: expect.anything(),
      passkeys: [{ id: IDS[0] }],
      recovery_codes_left: 10,
    });
  });

  it("says that there is nothing to remove, and no such account", async () => {
    const none = { code: 1, out: "", err: "There is no such second factor.\n" };
    expect(await factors(["remove-all", sub, "--yes"])).toEqual(none);
    expect(await factors(["remove", sub, "app", "--yes"])).toEqual(none);
    const unknown = await factors(["remove-all", crypto.randomUUID(), "--yes"]);
    expect(unknown).toEqual({ code: 1, out: "", err: "There is no such account.\n" });
  });
});

describe("factors reset-recovery-codes", () => {
  it("asks first, prints ten new codes once, ends the old ones, mails the person and is in the audit [D-FACTOR-44]", async () => {
    const { recovery_codes: old } = await running.service.accounts.addApp(sub, { secret: SECRET });
    await running.mailTo(email);
    const no = await factors(["reset-recovery-codes", sub], { confirm: async () => false });
    expect(no).toEqual({ code: 1, out: "", err: "Nothing was changed.\n" });
    const { code, out, err } = await factors(["reset-recovery-codes", sub, "--yes", "--json"]);
    expect([code, err]).toEqual([0, ""]);
    const { recovery_codes: codes } = JSON.parse(out) as { readonly recovery_codes: readonly string[] };
    expect(new Set([...codes, ...old]).size).toBe(20);
    expect((await running.mailTo(email)).text).toContain("new recovery codes");
    expect(await audit("account.recovery_codes_replaced")).toMatchObject([
      { actor: { kind: "command_line" } },
    ]);
    const table = await factors(["reset-recovery-codes", sub, "--yes"]);
    expect(table.out.match(/\b[0-9A-Z]{5}-[0-9A-Z]{5}\b/gu)).toHaveLength(10);
    for (const line of running.log) for (const each of codes) expect(line).not.toContain(each);
  });

  it("changes nothing without a second factor, an account or an answer", async () => {
    const none = { code: 1, out: "", err: "The account has no second factor.\n" };
    expect(await factors(["reset-recovery-codes", sub, "--yes"])).toEqual(none);
    const unknown = await factors(["reset-recovery-codes", crypto.randomUUID(), "--yes"]);
    expect(unknown).toEqual({ code: 1, out: "", err: "There is no such account.\n" });
    await addApp();
    const silent = await factors(["reset-recovery-codes", sub]);
    expect(silent).toMatchObject({ code: 2, out: "" });
  });
});
