/** Commands take another name of an account in place of its `sub`, if only that account has it. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { COMMANDS } from "../../cli/commands.ts";
import { type Office, openOffice } from "./administration-stage.ts";
import { closing } from "../closing.ts";

let office: Office;

beforeAll(async () => {
  office = closing(await openOffice());
}, 60_000);

describe("accounts find", () => {
  it("finds one account of two that a name matches only if the command says which one is meant [D-CLI-6]", async () => {
    const first = await office.prepare().then((sub) => office.service.accounts.find(sub));
    const number = String(first?.user_id);
    const second = await office.service.accounts.create({ email: "two@example.com", username: number });
    const { code, out, err } = await office.here(["accounts", "find", number, "--config", office.config]);
    expect({ code, out }).toEqual({ code: 1, out: "" });
    for (const option of ["--username", "--email", "--user-id", "--sub"]) expect(err).toContain(option);
    for (const [option, value, account] of [
      ["--user-id", number, first],
      ["--username", number, second],
      ["--email", "two@EXAMPLE.com", second],
      ["--sub", second.sub, second],
    ] as const)
      await expect(office.objects("accounts", "find", option, value)).resolves.toEqual([account]);
    expect(await office.here(["accounts", "find", "--config", office.config])).toMatchObject({ code: 2 });
  });
});

describe("a name in place of a sub", () => {
  it("is taken by every command about an account: the table says so once", () => {
    const taking = COMMANDS.commands.filter(({ operands = [] }) =>
      operands.some(({ form }) => form === "SUB"),
    );
    expect(taking.length).toBeGreaterThan(10);
    for (const { words, operands = [] } of taking)
      expect([words, operands[0]?.about]).toEqual([
        words,
        "the account: its sub, or the username, e-mail address or user_id that only it has",
      ]);
  });

  it.each([
    "accounts update NAME --surname Hopper",
    "accounts assign NAME weather",
    "accounts disable NAME",
    "deliveries explain --account NAME --type DELETE_ACCOUNT",
    "audit list --account NAME",
    "accounts delete NAME --yes",
  ])("is found: %s", async (example) => {
    const account = await office.prepare().then((sub) => office.service.accounts.find(sub));
    const isLast = example.includes("delete");
    for (const name of [account?.email ?? "", ...(isLast ? [] : [String(account?.user_id)])]) {
      const { code, err } = await office.example(example.replace("NAME", name));
      expect([name, code, err]).toEqual([name, 0, ""]);
    }
    if (isLast) expect(await office.service.accounts.find(account?.sub ?? "")).toBeUndefined();
  });

  it("changes nothing if nobody has it, or two accounts have it, and shows no name", async () => {
    const sub = await office.prepare();
    const user_id = String((await office.service.accounts.find(sub))?.user_id);
    const other = await office.service.accounts.create({ email: "other@example.com", username: user_id });
    for (const [name, says] of [
      ["nobody@example.com", /^There is no such account\.$/mu],
      [user_id, /^This name matches two accounts\. /u],
    ] as const)
      for (const words of [
        ["accounts", "delete", name, "--yes"],
        ["accounts", "disable", name],
        ["sessions", "end", name],
        ["audit", "list", "--account", name],
        ["deliveries", "redrive-all", "--account", name],
      ]) {
        const { code, out, err } = await office.here([...words, "--config", office.config]);
        expect([words, code, out, err]).toEqual([words, 1, "", expect.stringMatching(says)]);
        expect(err).not.toContain(name);
      }
    for (const each of [sub, other.sub])
      await expect(office.service.accounts.find(each)).resolves.toMatchObject({ disabled: false });
  });

  it("leaves a sub as it is: the audit of a deleted account can be read", async () => {
    const sub = await office.prepare();
    await office.service.accounts.delete(sub);
    const records = await office.objects("audit", "list", "--account", sub.toUpperCase());
    expect(records).toMatchObject([{ action: "account.deleted" }, ...Array(2).fill(expect.anything())]);
  });
});
