import { readFileSync, statSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { linesOf, TransferStage } from "./stage.ts";

const PASSWORD = "the password of ada";
const APP = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";

let here: TransferStage;
let there: TransferStage;
let sub: string;
beforeAll(async () => {
  [here, there] = [await TransferStage.open(), await TransferStage.open()];
  const lines = Array.from({ length: 1_100 }, (_each, index) => ({ email: `person${index}@example.com` }));
  const { refused } = await here.import(here.write("people.jsonl", lines));
  expect(refused).toEqual([]);
  const { accounts } = here.service;
  ({ sub } = await accounts.import({
    email: "ada@example.com",
    email_verified: true,
    username: "ada",
    name: "Ada",
    portal: "main",
    attributes: { department: "Engines", floor: 3, remote: false },
    services: { news: 7 },
    roles: { news: ["editor"] },
    password: PASSWORD,
    app: { secret: APP },
  }));
  await accounts.linkIdentity(sub, { provider: "google", subject: "77" });
  await accounts.disable(sub);
});
afterAll(() => Promise.all([here.close(), there.close()]));

const passkey = {
  id: "Y3JlZGVudGlhbA",
  user_handle: "aGFuZGxl",
  public_key: "cHVibGljIGtleQ",
  counter: 3,
  transports: ["internal"],
  backup_eligible: true,
  backed_up: false,
  rp_id: "login.example",
  name: "My phone",
  added_at: 1_700_000_000,
  last_used_at: null,
};

it("an export without credentials has none, and an import reads it [D-ADM-222]", async () => {
  const { code, out } = await here.cli(["accounts", "export"]);
  expect(code).toBe(0);
  expect(out).not.toMatch(/argon2|JBSWY3|"app"|"identities"|password/u);
  const lines = linesOf(out);
  expect(lines).toHaveLength(1_101);
  expect(lines.at(-1)).toEqual({
    sub,
    user_id: 1_101,
    email: "ada@example.com",
    email_verified: true,
    username: "ada",
    name: "Ada",
    portal: "main",
    attributes: { department: "Engines", floor: 3, remote: false },
    services: { news: 7 },
    roles: { news: ["editor"] },
    disabled: true,
  });
  const { counts, refused } = await here.import(here.write("same.jsonl", out), "--update");
  expect(refused).toEqual([]);
  expect(counts).toMatchObject({ same: 1_101, updated: 0 });
});

it("an export with credentials is encrypted, and brings everything to another installation [D-ADM-222]", async () => {
  const withPasskey = { email: "passkey@example.com", passkeys: [passkey] };
  expect((await here.import(here.write("passkey.jsonl", [withPasskey]))).refused).toEqual([]);
  const [file, key] = [here.path("all.enc"), here.path("all.key")];
  const words = ["accounts", "export", file, "--with-credentials", "--key-file", key];
  const { code, out } = await here.cli(words);
  expect([code, out]).toEqual([0, "Exported: 1102 accounts\n"]);
  const bytes = readFileSync(file);
  for (const text of ["example.com", "argon2", APP])
    expect([text, bytes.includes(text)]).toEqual([text, false]);
  expect(statSync(file).mode & 0o077).toBe(0);
  const { counts, refused } = await there.import(file, "--key-file", key);
  expect(refused).toEqual([]);
  expect(counts).toMatchObject({ created: 1_102 });
  const all = { after: undefined, limit: 2_000, credentials: true };
  expect(await there.service.accounts.exportLines(all)).toEqual(await here.service.accounts.exportLines(all));
  const { accounts } = there.service;
  await accounts.enable(sub);
  expect(await accounts.verifyPassword(sub, PASSWORD)).toBe(true);
  expect((await accounts.factors(sub))?.app).not.toBeNull();
  const [stored] = await accounts.identities(sub);
  expect(stored).toMatchObject({ provider: "google", subject: "77" });
  const owner = await accounts.findByLogin("passkey@example.com");
  expect((await accounts.factors(owner?.sub ?? ""))?.passkeys).toEqual([
    expect.objectContaining({ id: passkey.id, name: passkey.name, added_at: passkey.added_at }),
  ]);
  const again = await there.import(file, "--key-file", key);
  expect(again.counts).toMatchObject({ same: 1_102 });
});

it("an export with credentials has a key, never on standard output, and replaces no file [D-ADM-222]", async () => {
  const file = here.path("other.enc");
  const words = ["accounts", "export", file, "--with-credentials"];
  expect(await here.cli(words)).toMatchObject({ code: 2, err: expect.stringContaining("--key-file") });
  expect(await here.cli(["accounts", "export", "--with-credentials"])).toMatchObject({ code: 2 });
  expect(await here.cli(["accounts", "export", here.path("people.jsonl")])).toMatchObject({ code: 1 });
  const other = here.path("other.key");
  await here.cli([...words, "--key-file", other]);
  const { code, err } = await there.cli(["accounts", "import", file, "--key-file", here.path("all.key")]);
  expect([code, err]).toEqual([1, expect.stringContaining("The key does not belong")]);
});
