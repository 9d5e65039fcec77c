import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { hash as hashBcrypt } from "@node-rs/bcrypt";
import { linesOf, OPERATOR, type Refused, TransferStage } from "./stage.ts";

const PASSWORD = "the old password of ada";
const APP = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";

let stage: TransferStage;
beforeAll(async () => {
  stage = await TransferStage.open();
});
afterAll(() => stage.close());

/** A UUID that stands for a text. */
function sub(text: string): string {
  const hex = createHash("md5").update(text).digest("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`;
}

const email = (name: string): string => `${name}@example.com`;

/** The pairs of identifiers that were printed. */
const pairsOf = (out: string) =>
  linesOf<{ id?: string; sub: string }>(out).filter(({ id }) => id !== undefined);

describe("accounts import", () => {
  it("makes what is missing, with everything that a line says, and nobody is told [D-ADM-204]", async () => {
    const ada = {
      sub: sub("ada"),
      user_id: 5_000,
      email: email("ada"),
      email_verified: true,
      username: "ada",
      name: "Ada",
      surname: "Lovelace",
      date_of_birth: "1990-12-10",
      locale: "en",
      portal: "main",
      attributes: { department: "Engines", floor: 3, remote: true },
      services: { news: 7 },
      roles: { news: ["editor"] },
    };
    const file = stage.write("new.jsonl", [
      { ...ada, password_hash: await hashBcrypt(PASSWORD, 4) },
      { sub: sub("bob"), email: email("bob"), disabled: true, password: PASSWORD, app: { secret: APP } },
      { email: email("nameless") },
    ]);
    const { counts, refused, outcome } = await stage.import(file);
    expect(refused).toEqual([]);
    expect([outcome.code, counts]).toEqual([0, { created: 3, updated: 0, same: 0, refused: 0, left_out: 0 }]);
    const { accounts, audit } = stage.service;
    expect(await accounts.find(ada.sub)).toMatchObject(ada);
    expect(await accounts.find(sub("bob"))).toMatchObject({ disabled: true });
    // The counter has moved past the imported number.
    const { sub: next } = await accounts.create({ email: email("next") });
    expect((await accounts.find(next))?.user_id).toBe(5_001);
    expect((await accounts.factors(sub("bob")))?.app).not.toBeNull();
    expect(await accounts.verifyPassword(ada.sub, PASSWORD)).toBe(true);
    await accounts.enable(sub("bob"));
    expect(await accounts.verifyPassword(sub("bob"), PASSWORD)).toBe(true);
    const { items } = await audit.list({ account: ada.sub, action: "account.imported" });
    expect(items).toEqual([
      expect.objectContaining({ actor: expect.objectContaining({ kind: "command_line" }) }),
    ]);
    expect((await stage.service.notifications.list()).items).toEqual([]);
    // The same again: every account is there, also the one that had no identifier.
    const again = await stage.import(file, "--update");
    expect(again.counts).toEqual({ created: 0, updated: 0, same: 3, refused: 0, left_out: 0 });
  });

  it("writes nothing as a dry run, and finds the same problems [D-ADM-204]", async () => {
    const before = await stage.export();
    const file = stage.write("dry.jsonl", [
      { email: email("dry") },
      { email: email("dry") },
      { email: email("ada"), sub: sub("another") },
      { email: email("dry2"), user_id: 5_000 },
    ]);
    const { counts, refused } = await stage.import(file, "--dry-run");
    expect(counts).toMatchObject({ created: 1, same: 1, refused: 2 });
    expect(refused.map(({ line, code }) => [line, code])).toEqual([
      [3, "name_taken"],
      [4, "already_exists"],
    ]);
    expect(await stage.export()).toEqual(before);
  });

  const LONG = "x".repeat(2_000_000);

  it.each<readonly [name: string, line: string | Buffer, code: string]>([
    ["a line that was cut", '{"email":"cut@exam', "invalid_argument"],
    ["no JSON", "email,name", "invalid_argument"],
    ["no object", "[]", "invalid_argument"],
    ["wrong UTF-8", Buffer.from('{"email":"\xff@example.com"}', "latin1"), "invalid_argument"],
    ["a line that is too long", `{"email":"${LONG}"}`, "invalid_argument"],
    ["JSON that is nested too deep", `{"email":${"[".repeat(1000)}${"]".repeat(1000)}}`, "invalid_argument"],
    ["__proto__", `{"email":"p@example.com","__proto__":{"sub":"${sub("p")}"}}`, "invalid_argument"],
    [
      "constructor as a service",
      '{"email":"p@example.com","services":{"constructor":1}}',
      "invalid_argument",
    ],
    ["an unknown member", '{"email":"p@example.com","is_admin":true}', "invalid_argument"],
    ["an unknown attribute", '{"email":"p@example.com","attributes":{"salary":1}}', "invalid_argument"],
    [
      "an attribute of another type",
      '{"email":"p@example.com","attributes":{"floor":"3"}}',
      "invalid_argument",
    ],
    ["an unknown service", '{"email":"p@example.com","services":{"weather":1}}', "unknown_reference"],
    ["an unknown portal", '{"email":"p@example.com","portal":"old"}', "unknown_reference"],
    [
      "an unknown role",
      '{"email":"p@example.com","services":{"news":1},"roles":{"news":["boss"]}}',
      "unknown_reference",
    ],
    [
      "an unknown provider",
      '{"email":"p@example.com","identities":[{"provider":"apple","subject":"1"}]}',
      "unknown_reference",
    ],
    [
      "the issuer of somebody else",
      '{"email":"p@example.com","identities":[{"provider":"google","subject":"1","issuer":"https://evil.example"}]}',
      "unknown_reference",
    ],
    [
      "a hash that costs too much",
      `{"email":"p@example.com","password_hash":"$2b$15$${"a".repeat(53)}"}`,
      "invalid_argument",
    ],
    ...[
      ["PBKDF2", `$pbkdf2-sha256$2000001$aaaa$${"a".repeat(43)}`],
      ["scrypt's memory", `$scrypt$ln=18,r=8,p=1$aaaa$${"a".repeat(43)}`],
      ["scrypt's lanes", `$scrypt$ln=10,r=8,p=17$aaaa$${"a".repeat(43)}`],
      ["Argon2's memory", `$argon2id$v=19$m=262145,t=1,p=1$${"a".repeat(22)}$${"a".repeat(43)}`],
      ["Argon2's passes", `$argon2id$v=19$m=64,t=11,p=1$${"a".repeat(22)}$${"a".repeat(43)}`],
    ].map(
      ([what, hash]) =>
        [
          `a hash that costs too much: ${what}`,
          `{"email":"p@example.com","password_hash":"${hash}"}`,
          "invalid_argument",
        ] as const,
    ),
    [
      "a hash of no known format",
      '{"email":"p@example.com","password_hash":"5f4dcc3b5aa765d61d8327deb882cf99"}',
      "invalid_argument",
    ],
    ["a password that is too short", '{"email":"p@example.com","password":"short"}', "invalid_password"],
    ["no address", `{"sub":"${sub("p")}"}`, "invalid_argument"],
    ["a sub that is no UUID", '{"email":"p@example.com","sub":"auth0|1"}', "invalid_argument"],
    ["a user_id that somebody has", '{"email":"p@example.com","user_id":5000}', "already_exists"],
    ["the name of somebody else", '{"email":"p@example.com","username":"ADA"}', "name_taken"],
    ["the address of somebody else", '{"email":"Ada@EXAMPLE.com"}', "name_taken"],
    ["the sub of an operator", `{"email":"p@example.com","sub":"${OPERATOR}"}`, "operator_protected"],
  ])("refuses %s, and goes on with the next line [D-ADM-205]", async (_name, line, code) => {
    const before = await stage.export();
    const first = Buffer.isBuffer(line) ? line : Buffer.from(line);
    const next = Buffer.from(
      `\n${JSON.stringify({ email: email("ada"), sub: sub("ada"), user_id: 5_000 })}\n`,
    );
    const { counts, refused, outcome } = await stage.import(
      stage.write("bad.jsonl", Buffer.concat([first, next])),
    );
    expect(outcome.code).toBe(1);
    expect(counts).toMatchObject({ created: 0, same: 1, refused: 1 });
    expect(refused).toEqual([{ line: 1, code, message: expect.any(String) }]);
    // Nothing of the line is repeated.
    for (const secret of ["5f4dcc3b5aa765d61d8327deb882cf99", "aaaa", "p@example", "short", "evil", "xxxx"])
      expect([secret, JSON.stringify(refused).includes(secret)]).toEqual([secret, false]);
    expect(outcome.out + outcome.err).not.toContain("example.com");
    expect(await stage.export()).toEqual(before);
  });

  it("reads a byte order mark, CRLF, empty lines and a last line without an end [D-ADM-205]", async () => {
    const lines = [
      "\uFEFF" + JSON.stringify({ email: email("bom") }),
      "",
      "  ",
      JSON.stringify({ email: email("crlf") }),
      "{",
    ];
    const { counts, refused } = await stage.import(stage.write("crlf.jsonl", lines.join("\r\n")));
    expect(counts).toMatchObject({ created: 2, refused: 1 });
    expect(refused.map(({ line }: Refused) => line)).toEqual([5]);
  });

  it("takes the first of what is twice in a file, also within one commit [D-ADM-205]", async () => {
    const file = stage.write("twice.jsonl", [
      { sub: sub("t1"), email: email("t1"), username: "twice", user_id: 7_001 },
      { sub: sub("t1"), email: email("t1x") },
      { sub: sub("t2"), email: email("T1") },
      { sub: sub("t3"), email: email("t3"), username: "TWICE" },
      { sub: sub("t4"), email: email("t4"), user_id: 7_001 },
      { sub: sub("t5"), email: email("t5"), identities: [{ provider: "google", subject: "5" }] },
      { sub: sub("t6"), email: email("t6"), identities: [{ provider: "google", subject: "5" }] },
    ]);
    const { counts, refused } = await stage.import(file);
    expect(counts).toMatchObject({ created: 2, same: 1, refused: 4 });
    expect(refused.map(({ line, code }) => `${line} ${code}`)).toEqual([
      "3 name_taken",
      "4 name_taken",
      "5 already_exists",
      "7 already_exists",
    ]);
    expect(await stage.service.accounts.find(sub("t1"))).toMatchObject({
      email: email("t1"),
      user_id: 7_001,
    });
    // What was refused has left nothing: its names are free.
    const { counts: later } = await stage.import(
      stage.write("later.jsonl", [{ sub: sub("t4"), email: email("t4") }]),
    );
    expect(later).toMatchObject({ created: 1 });
  });

  it("takes the first of what is twice, also when the second is decided while the first is written [D-ADM-205]", async () => {
    const people = Array.from({ length: 450 }, (_each, index) => ({ email: email(`across${index}`) }));
    const again = { email: email("Across7"), username: "across" };
    const taken = { sub: sub("across"), email: email("ACROSS199") };
    const lines = [...people.slice(0, 200), again, taken, ...people.slice(200), people[3] ?? {}];
    const { counts, refused } = await stage.import(stage.write("across.jsonl", lines));
    expect(counts).toMatchObject({ created: 450, same: 2, refused: 1 });
    expect(refused).toEqual([expect.objectContaining({ line: 202, code: "name_taken" })]);
    expect(await stage.service.accounts.findByLogin(email("across7"))).toMatchObject({ username: null });
  });

  it("writes nothing of the lines behind those that could not be written [D-ADM-205]", async () => {
    const { accounts } = stage.service;
    const options = { mapSub: false, updates: "none", notify: false, isDry: false } as const;
    const lines = [{ email: email("behind") }];
    const before = Promise.reject(new Error("the storage failed"));
    before.catch(() => undefined);
    await expect(accounts.importLines(lines, options, {}, before)).rejects.toThrow("the storage failed");
    expect(await accounts.findByLogin(email("behind"))).toBeUndefined();
  });

  it("gives a deleted account to nobody, and does not bring it back [D-ADM-206]", async () => {
    const file = stage.write("gone.jsonl", [{ email: email("gone") }]);
    await stage.import(file);
    const account = await stage.service.accounts.findByLogin(email("gone"));
    await stage.service.accounts.delete(account?.sub ?? "");
    const { refused } = await stage.import(file);
    expect(refused).toEqual([expect.objectContaining({ line: 1, code: "already_exists" })]);
  });

  it("makes the same sub of an identifier of another system, and lists the pairs [D-ADM-207]", async () => {
    const file = stage.write("foreign.jsonl", [
      { sub: "auth0|64fa", email: email("foreign") },
      { id: "42", email: email("numbered") },
      { sub: sub("uuid"), email: email("uuid") },
    ]);
    const { refused } = await stage.import(file, "--dry-run");
    expect(refused.map(({ line }) => line)).toEqual([1, 2]);
    const first = await stage.import(file, "--map-sub");
    const pairs = pairsOf(first.outcome.out);
    expect(pairs.map(({ id }) => id)).toEqual(["auth0|64fa", "42"]);
    for (const { sub: made } of pairs)
      expect(made).toMatch(/^[\da-f]{8}-[\da-f]{4}-8[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/u);
    expect(await stage.service.accounts.find(pairs[0]?.sub ?? "")).toMatchObject({ email: email("foreign") });
    const second = await stage.import(file, "--map-sub");
    expect(pairsOf(second.outcome.out)).toEqual(pairs);
    expect(second.counts).toMatchObject({ created: 0, same: 3 });
  });

  it("stops between two commits when it is interrupted, and continues [D-ADM-208]", async () => {
    const people = Array.from({ length: 450 }, (_each, index) => ({ email: email(`many${index}`) }));
    const file = stage.write("many.jsonl", people);
    const stop = new AbortController();
    const commits: unknown[] = [];
    const store = stage.service;
    store.events.on("account.changed", (event) => commits.push(event));
    // It notices the signal when it looks for the second time.
    let looks = 0;
    const signal = new Proxy(stop.signal, {
      get(target, name) {
        if (name === "aborted") {
          looks += 1;
          if (looks === 2) stop.abort();
        }
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === "function" ? (value.bind(target) as unknown) : value;
      },
    });
    const { code, err } = await stage.cli(["accounts", "import", file], { signal });
    expect(code).toBe(130);
    expect(err).toContain("Run the same command again, and it continues where it stopped.");
    const { counts } = await stage.import(file);
    expect(counts).toMatchObject({ created: 250, same: 200, refused: 0 });
  });
});
