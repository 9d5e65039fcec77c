/** Codes and links that are sent by mail, over a real storage. */
import { createSecretKey, randomBytes } from "node:crypto";
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { Storage } from "../../../records/storage.ts";
import { openStorage } from "../../../records/storage.ts";
import { openMail } from "../../../records/people/mail-kinds.ts";
import {
  type Confirmations,
  type ConfirmationSecrets,
  createConfirmations,
  type FoundConfirmation,
  normalizeCode,
} from "../../../accounts/people/confirmations.ts";
import { createSealer } from "../../../core/sealing.ts";
import { TestClock } from "../../../testing/test-clock.ts";
import { readAccount, writeAccount } from "../../../accounts/account-write.ts";
import { CONFIRMATION } from "../../../records/people/confirmation-kinds.ts";
import type { Transaction } from "../../../records/records.ts";
import { account, putAccount } from "../../records/rules/stage.ts";
import { closing } from "../../closing.ts";
import { newStorage } from "../../servers/storage.ts";

const sealer = createSealer([Buffer.alloc(32, 7).toString("base64")]);
const key = createSecretKey(randomBytes(32));
const SUB = account(1).sub;
const RESET = { purpose: "password-reset", subject: SUB } as const;

let clock: TestClock;
let storage: Storage;
let confirmations: Confirmations;
let wakes: number;

beforeEach(async () => {
  clock = new TestClock();
  wakes = 0;
  const { keys: _keys, ...addresses } = await newStorage();
  storage = closing(await openStorage({ artifacts: addresses.storage, ...addresses, clock }));
  confirmations = createConfirmations({ storage, clock, sealer }, key, () => (wakes += 1));
});

/** Issues a reset. @returns what its mail contains. */
async function issue(
  parts: { readonly subject?: string; readonly interaction?: string } = {},
): Promise<ConfirmationSecrets> {
  let sent: ConfirmationSecrets | undefined;
  await confirmations.issue({
    ...RESET,
    interaction: "i",
    ...parts,
    extra: { email: "ada@example.com" },
    mail(secrets) {
      sent = secrets;
      return { kind: "password-changed", to: "a@b", deployment: "openid", params: {}, expiresAt: 9e15 };
    },
  });
  return sent as ConfirmationSecrets;
}

const wrongCode = (code: string): string => (code.startsWith("0") ? "1" : "0") + code.slice(1);

/** Uses it up. */
async function use(found: FoundConfirmation<unknown>): Promise<string> {
  found.remove();
  return "used";
}

const byCode = (code: string, subject = SUB) =>
  confirmations.prove("password-reset", { subject }, { code }, use);
const byLink = (link: string) => confirmations.prove("password-reset", undefined, { link }, use);

const GONE = { kind: "gone" };

describe("a confirmation", () => {
  it("is proven once, by its code or its link, and keeps what it is about [D-CODE-1]", async () => {
    const first = await issue();
    expect(first.code).toMatch(/^[0-9A-HJKMNP-TV-Z]{8}$/);
    expect(Buffer.from(first.link, "base64url")).toHaveLength(32);
    await expect(confirmations.findByLink(first.link)).resolves.toMatchObject({
      ...RESET,
      interaction: "i",
      extra: { email: "ada@example.com" },
      confirmed: false,
      triesLeft: 5,
    });
    await expect(byCode(first.code)).resolves.toBe("used");
    await expect(byCode(first.code)).resolves.toEqual(GONE);
    await expect(byLink(first.link)).resolves.toEqual(GONE);
    const second = await issue();
    await expect(byLink(second.link)).resolves.toBe("used");
    await expect(byLink(second.link)).resolves.toEqual(GONE);
    await expect(byCode(second.code)).resolves.toEqual(GONE);
    expect(wakes).toBe(2);
  });

  it("stores neither code nor link, nor what it is about in plain text, and its mail with it [D-CODE-1]", async () => {
    const { code, link } = await issue();
    const found = await storage.records.find(CONFIRMATION.ref([RESET.purpose, SUB]));
    expect(found).toBeDefined();
    expect(JSON.stringify(found)).not.toMatch(new RegExp(`${code}|${link}|ada@`));
    const [mail] = await storage.outbox.claim(9, 1_000);
    expect(openMail(sealer, mail!)).toMatchObject({ to: "a@b" });
  });

  it("works for an hour, and not when a newer one has replaced it [D-CODE-1]", async () => {
    const old = await issue();
    const newer = await issue();
    await expect(byLink(old.link)).resolves.toEqual(GONE);
    await expect(byCode(old.code)).resolves.toEqual({ kind: "wrong", triesLeft: 4 });
    clock.advance(3_599);
    await expect(byCode(newer.code)).resolves.toBe("used");
    const late = await issue();
    clock.advance(3_600);
    await expect(byCode(late.code)).resolves.toEqual(GONE);
    await expect(byLink(late.link)).resolves.toEqual(GONE);
  });

  it("belongs to one purpose and one account or sign-in [D-CODE-1]", async () => {
    const { code, link } = await issue();
    await issue({ subject: "other", interaction: "j" });
    for (const proof of [{ code }, { link }]) {
      await expect(confirmations.prove("address-change", { subject: SUB }, proof, use)).resolves.toEqual(
        GONE,
      );
      await expect(
        confirmations.prove("password-reset", { interaction: "none" }, proof, use),
      ).resolves.toEqual(GONE);
    }
    await expect(byCode(code, "other")).resolves.toEqual({ kind: "wrong", triesLeft: 4 });
    for (const where of [{ subject: "other" }, { interaction: "j" }]) {
      await expect(confirmations.prove("password-reset", where, { link }, use)).resolves.toEqual(GONE);
    }
    await expect(confirmations.prove("password-reset", { interaction: "i" }, { code }, use)).resolves.toBe(
      "used",
    );
  });

  it("of one sign-in is the newest", async () => {
    await issue({ subject: "earlier" });
    clock.advance(1);
    const { code } = await issue({ subject: "later" });
    const found = await confirmations.find({ purpose: "password-reset", interaction: "i" });
    expect(found?.subject).toBe("later");
    await expect(confirmations.prove("password-reset", { interaction: "i" }, { code }, use)).resolves.toBe(
      "used",
    );
  });

  it("can be renewed, kept, removed and cancelled", async () => {
    const { code, link } = await issue();
    let renewed = "";
    const mail = (secrets: ConfirmationSecrets) => {
      renewed = secrets.code;
      return { kind: "password-changed", to: "", deployment: "openid", params: {}, expiresAt: 9e15 } as const;
    };
    await expect(confirmations.renew(RESET, mail)).resolves.toBe(true);
    await expect(byLink(link)).resolves.toEqual(GONE);
    await expect(byCode(code)).resolves.toMatchObject({ kind: "wrong" });
    await confirmations.change(RESET, (found) => found?.keep());
    await expect(confirmations.find(RESET)).resolves.toMatchObject({ confirmed: true, triesLeft: 4 });
    // What is confirmed needs no other code.
    await expect(confirmations.renew(RESET, mail)).resolves.toBe(false);
    await confirmations.cancel("password-reset", SUB);
    await expect(byCode(renewed)).resolves.toEqual(GONE);
    await expect(confirmations.renew(RESET, mail)).resolves.toBe(false);
    await expect(confirmations.change(RESET, (found) => found)).resolves.toBeUndefined();
    await issue();
    await confirmations.change(RESET, (found) => found?.remove());
    await expect(confirmations.find(RESET)).resolves.toBeUndefined();
  });
});

describe("a code that is guessed", () => {
  it("ends after five tries; its link, which nobody can guess, does not [D-CODE-2]", async () => {
    const { code, link } = await issue();
    for (const triesLeft of [4, 3, 2, 1, 0]) {
      await expect(byCode(wrongCode(code))).resolves.toEqual({ kind: "wrong", triesLeft });
    }
    await expect(byCode(code)).resolves.toEqual({ kind: "wrong", triesLeft: 0 });
    await expect(byLink(link)).resolves.toBe("used");
  });

  it("has five tries in all, however many come at once, and the sixth gets nowhere [D-CODE-2]", async () => {
    const { code } = await issue();
    const guesses = Array.from({ length: 25 }, () => byCode(wrongCode(code)));
    const results = await Promise.all(guesses);
    const left = results.map((result) => (result as { readonly triesLeft: number }).triesLeft);
    for (const triesLeft of [4, 3, 2, 1]) expect(left.filter((each) => each === triesLeft)).toHaveLength(1);
    expect(left.filter((each) => each === 0)).toHaveLength(21);
    await expect(byCode(code)).resolves.toEqual({ kind: "wrong", triesLeft: 0 });
  });

  it("is used once, however many have it at once [D-CODE-1]", async () => {
    const { code, link } = await issue();
    const uses = Array.from({ length: 12 }, (_, index) => (index % 2 === 0 ? byCode(code) : byLink(link)));
    const results = await Promise.all(uses);
    expect(results.filter((result) => result === "used")).toHaveLength(1);
    expect(results.filter((result) => result !== "used")).toEqual(Array.from({ length: 11 }, () => GONE));
  });

  it("that was right loses to five wrong ones before its change is committed [D-CODE-2]", async () => {
    const { code } = await issue();
    let isFirst = true;
    const result = await confirmations.prove(
      "password-reset",
      { subject: SUB },
      { code },
      async (pending) => {
        if (isFirst) {
          isFirst = false;
          for (let tries = 0; tries < 5; tries += 1) await byCode(wrongCode(code));
        }
        return use(pending);
      },
    );
    expect(result).toEqual({ kind: "wrong", triesLeft: 0 });
  });

  it.each([
    ["a slip of letters", "o1ilAbcd", "0111ABCD"],
    ["spaces and dashes", " 01-23 45\u201167\t", "01234567"],
    ["full-width letters", "ＡＢＣＤ２３４５", "ABCD2345"],
    ["too few", "1234567", undefined],
    ["too many", "123456789", undefined],
    ["a letter that no code has", "1234567U", undefined],
    ["nothing", "", undefined],
    ["a line break and more", "12345678\r\nBcc: eve@example.com", undefined],
    ["10,000 characters", "1".repeat(10_000), undefined],
    ["broken characters", "\ud800\u00001234567", undefined],
  ])("may have %s", (_what, typed, code) => {
    expect(normalizeCode(typed)).toBe(code);
  });

  it("that can't be a code does not count as a try", async () => {
    await issue();
    for (const slip of ["", "1234", "x".repeat(10_000), "\0".repeat(8)]) {
      await expect(byCode(slip)).resolves.toEqual({ kind: "wrong", triesLeft: 5 });
    }
    for (const link of ["", "x".repeat(10_000), "\0", "a".repeat(43)]) {
      await expect(byLink(link)).resolves.toEqual(GONE);
    }
  });
});

describe("the transaction that uses a confirmation", () => {
  it("writes nothing without its change, and its change once", async () => {
    const ada = account(1);
    await putAccount(storage, ada);
    const { code } = await issue();
    const changeName = async (found: FoundConfirmation<unknown>, tx: Transaction) => {
      found.remove();
      const before = await readAccount(tx, ada.sub);
      const after = { ...before!, sessions_generation: before!.sessions_generation + 1 };
      await writeAccount(tx, { before, after }, { clock, search: key });
      return "used";
    };
    const prove = (act: typeof changeName) =>
      confirmations.prove("password-reset", { subject: SUB }, { code }, act);
    const failing = prove(async (found, tx) => {
      await changeName(found, tx);
      throw new Error("planted");
    });
    await expect(failing).rejects.toThrow("planted");
    await expect(storage.directory.findAccount(ada.sub)).resolves.toEqual(ada);
    await expect(confirmations.find(RESET)).resolves.toBeDefined();
    const results = await Promise.all([prove(changeName), prove(changeName), prove(changeName)]);
    expect(results.filter((result) => result === "used")).toHaveLength(1);
    expect(results.filter((result) => result !== "used")).toEqual([GONE, GONE]);
    const generation = ada.sessions_generation + 1;
    await expect(storage.directory.findAccount(ada.sub)).resolves.toMatchObject({
      sessions_generation: generation,
    });
  });
});
