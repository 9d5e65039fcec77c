/** Values of attributes that are no longer configured, or no longer fit: kept, named by `storage check`, removed on request. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { AccountsInput } from "../../config/attributes.ts";
import { createSignInService, type SignInService } from "../../lib/service.ts";
import type { Explanation } from "../../notifier/operations.ts";
import { here, type Outcome } from "./here.ts";

const TEXT = { type: "text", label: "Label" } as const;
const CHOICE = { type: "choice", label: "Floor", notify: true, edit: "operator" } as const;

const BEFORE: AccountsInput = {
  attributes: { department: TEXT, floor: { ...CHOICE, options: { a: "A", b: "B" } }, phone_number: true },
};
/** One attribute is gone, and another has lost an option. */
const AFTER: AccountsInput = {
  attributes: { floor: { ...CHOICE, options: { b: "B" } }, phone_number: true },
};

let folder: string;
let file: string;
let subs: readonly string[];

/** A service with these attributes does something. */
async function withService<T>(
  accounts: AccountsInput,
  work: (service: SignInService) => Promise<T>,
): Promise<T> {
  const config = {
    deployments: { openid: { url: "http://127.0.0.1:3000" } },
    storage: `sqlite:${join(folder, "sign-in.db")}`,
    accounts,
  };
  writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
  const service = await createSignInService({ ...config, notifications: { worker: false } });
  try {
    return await work(service);
  } finally {
    await service.close();
  }
}

const cli = (...words: readonly string[]): Promise<Outcome> => here([...words, "--config", file]);
const prune = (name: string): Promise<Outcome> =>
  cli("accounts", "prune-attributes", name, "--yes", "--json");

const VALUES = [
  { department: "Research", floor: "a", phone_number: "+48226950000" },
  { department: "Sales", floor: "b" },
  {},
];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "sign-in-attributes-"));
  file = join(folder, "config.json");
  subs = await withService(BEFORE, async ({ accounts, directory }) => {
    const receiver = {
      url: "https://a.example/",
      client_id: "a",
      client_secret: "of a",
      types: ["PROFILE_CHANGED"],
    } as const;
    await directory.portals.put("p", { name: "Portal", receiver });
    const made = VALUES.map(async (attributes, index) =>
      accounts.create({ email: `person${index}@example.com`, attributes, portal: "p" }),
    );
    return (await Promise.all(made)).map(({ sub }) => sub);
  });
});
afterAll(() => rmSync(folder, { recursive: true }));

/** The attributes of all accounts, as a service with all of them shows them, and when the accounts were updated. */
const stored = () =>
  withService(BEFORE, async ({ accounts }) => {
    const found = await Promise.all(subs.map(async (sub) => accounts.find(sub)));
    return {
      attributes: found.map((account) => {
        const values = Object.entries(account?.attributes ?? {});
        return Object.fromEntries(values.filter(([, value]) => value !== null && value !== false));
      }),
      updated: found.map((account) => account?.updated_at),
    };
  });

describe("values that nobody reads", () => {
  it("are kept, named by storage check, and removed by accounts prune-attributes, one attribute at a time [D-ATTR-9, D-ATTR-21]", async () => {
    const before = await stored();
    expect(before.attributes).toEqual(VALUES);
    await withService(AFTER, async ({ accounts }) => {
      const { attributes } = await accounts.update(subs[0] ?? "", {
        attributes: { phone_number: "+442079460958" },
      });
      expect(attributes).toEqual({
        floor: null,
        phone_number: "+442079460958",
        phone_number_verified: false,
      });
    });
    const said = await cli("storage", "check");
    expect([said.code, said.out]).toEqual([
      1,
      expect.stringMatching(
        /^account: 2 attributes with values that nobody reads.* \((?:department in 2 accounts|floor in 1 account|, )+\)$/mu,
      ),
    ]);
    // Without the configuration, nobody knows.
    const unknown = await here(["storage", "check", `sqlite:${join(folder, "sign-in.db")}`]);
    expect([unknown.code, unknown.err]).toEqual([
      0,
      expect.stringContaining("not compared with accounts.attributes"),
    ]);

    const pruned = await prune("department");
    expect([pruned.code, JSON.parse(pruned.out)]).toEqual([0, { accounts: 2 }]);
    expect((await cli("storage", "check")).out).toMatch(/account: 1 attributes .* \(floor in 1 account\)/u);
    expect(JSON.parse((await prune("floor")).out)).toEqual({ accounts: 1 });
    // Values that fit stay, and so does what is not there.
    for (const name of ["floor", "phone_number", "department", "__proto__"])
      expect(JSON.parse((await prune(name)).out)).toEqual({ accounts: 0 });
    expect(await cli("storage", "check")).toMatchObject({ code: 0 });
    expect((await stored()).attributes).toEqual([{ phone_number: "+442079460958" }, { floor: "b" }, {}]);
  });

  it("are removed without a notification, and with one record of the audit [D-ATTR-21]", async () => {
    await withService(AFTER, async ({ audit, notifications, accounts }) => {
      const { items } = await audit.list({ action: "account.attributes_pruned" });
      expect(items.map(({ actor: { kind }, detail }) => [kind, detail])).toEqual([
        ["command_line", { attribute: "floor", accounts: 1 }],
        ["command_line", { attribute: "department", accounts: 2 }],
      ]);
      expect((await notifications.list({})).items).toEqual([]);
      await expect(accounts.pruneAttributes(7 as never)).rejects.toThrow("account.attribute: must be");
    });
  });
});

describe("deliveries explain", () => {
  const ACCOUNTS: AccountsInput = {
    attributes: {
      department: { ...TEXT, scope: "org", readers: ["1"], notify: true },
      floor: { ...TEXT, scope: "org", notify: true },
      note: TEXT,
    },
  };

  it("says who is told of a change of attributes, and who is not because it may not read them [D-ATTR-22]", async () => {
    const sub = await withService(ACCOUNTS, async ({ accounts, directory }) => {
      for (const key of ["1", "2"])
        await directory.services.put(key, {
          name: key,
          receiver: {
            url: "https://a.example/",
            client_id: "a",
            client_secret: "of a",
            types: ["PROFILE_CHANGED"],
          },
        });
      const { sub: created } = await accounts.create({ email: "explained@example.com", portal: "p" });
      for (const key of ["1", "2"]) await accounts.assign(created, key);
      return created;
    });
    const explained = async (...attributes: readonly string[]) => {
      const words = ["deliveries", "explain", "--account", sub, "--type", "PROFILE_CHANGED", "--json"];
      const { code, out, err } = await cli(...words, ...attributes.flatMap((name) => ["--attribute", name]));
      if (code !== 0) return err;
      const lines = out.split("\n").filter((line) => line !== "");
      return lines.map((line) => {
        const { receiver, reason, services } = JSON.parse(line) as Explanation;
        return [receiver, reason, services];
      });
    };
    const all = [
      ["service:1", "notified", ["1"]],
      ["service:2", "notified", ["2"]],
      ["portal:p", "notified", ["1", "2"]],
    ];
    expect(await explained()).toEqual(all);
    expect(await explained("floor")).toEqual(all);
    expect(await explained("department", "floor")).toEqual(all);
    expect(await explained("department", "note")).toEqual([
      ["service:1", "notified", ["1"]],
      ["portal:p", "notified", ["1"]],
      ["service:2", "not_a_reader", ["2"]],
    ]);
    expect(await explained("note")).toEqual([]);
    for (const name of ["__proto__", "email", "Department"])
      expect(await explained(name)).toContain("delivery.attributes: must be attributes of this service");
  });
});
