/** `keys.secrets` and the storage: which secrets a process needs, which one has to be the first, and what happens when they are lost. */
import { describe, expect, it } from "@jest/globals";
import { pino } from "pino";
import type { SignInServiceConfig } from "../../config/input.ts";
import { createSealer } from "../../core/sealing.ts";
import { createSignInService, type SignInService } from "../../lib/service.ts";
import { createNotificationWorker } from "../../notifier/worker.ts";
import { storageIn } from "../flows/running-service.ts";
import { rounds } from "../rounds.ts";
import { configFile, DEPLOYMENTS, newPlace } from "./backup-stage.ts";
import { here, type Outcome } from "./here.ts";
import { everythingIn, Workshop } from "./stage.ts";

const [A, B, C] = [1, 2, 3].map((byte) => Buffer.alloc(32, byte).toString("base64")) as [
  string,
  string,
  string,
];
const [ID_A, ID_B, ID_C] = createSealer([A, B, C]).ids as [string, string, string];
const workshop = new Workshop();

/** A storage, and what runs on it. */
class Ground {
  readonly place: Pick<SignInServiceConfig, "artifacts"> & { readonly storage: string };

  private constructor(place: Ground["place"]) {
    this.place = place;
  }

  static async open(): Promise<Ground> {
    const { keys: _own, ...place } = await storageIn(newPlace(workshop).folder);
    return new Ground(place);
  }

  config(...secrets: string[]): SignInServiceConfig {
    return {
      ...this.place,
      deployments: DEPLOYMENTS,
      keys: { secrets },
      notifications: { worker: false },
      logger: pino({ level: "silent" }),
    };
  }

  /** Starts a server, and ends it. */
  async serve(...secrets: string[]): Promise<void> {
    const service = await createSignInService(this.config(...secrets));
    await service.close();
  }

  command(words: readonly string[], ...secrets: string[]): Promise<Outcome> {
    const file = configFile(newPlace(workshop).folder, { ...this.place, keys: { secrets } });
    return here([...words, "--config", file]);
  }

  /** What `keys list` says of each secret. */
  async states(...secrets: string[]): Promise<readonly unknown[]> {
    const { out } = await this.command(["keys", "list", "--json"], ...secrets);
    const rows = out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    return rows.filter(({ id }) => id !== undefined).map(({ id, state, position }) => [id, state, position]);
  }
}

const lacks = (id: string): object =>
  expect.objectContaining({
    code: "unusable_secrets",
    message: expect.stringMatching(
      new RegExp(`the storage needs ${id}, which keys\\.secrets lacks .*reset --lost$`),
    ),
  });
const replacedBy = (first: string, newest: string): object =>
  expect.objectContaining({
    code: "unusable_secrets",
    message: expect.stringContaining(`the first of keys.secrets is ${first}, which ${newest} has replaced`),
  });

describe("keys.secrets", () => {
  it("are known to the storage by ids: a new first one becomes the newest, and an old one is needed until keys reseal has finished [D-SECRETS-1, D-SECRETS-2, D-SECRETS-3, D-SECRETS-4]", async () => {
    const ground = await Ground.open();
    await ground.serve(A);
    expect(await ground.states(A)).toEqual([[ID_A, "newest", 1]]);
    // As a second one it changes nothing.
    await ground.serve(A, B);
    expect(await ground.states(A, B)).toEqual([
      [ID_A, "newest", 1],
      [ID_B, "new", 2],
    ]);
    await ground.serve(A);
    await ground.serve(B, A);
    expect(await ground.states(B, A)).toEqual([
      [ID_A, "needed", 2],
      [ID_B, "newest", 1],
    ]);
    // The forgotten and the older one, at every process.
    for (const [secrets, refusal] of [
      [[A], lacks(ID_B)],
      [[B], lacks(ID_A)],
      [[C, B], lacks(ID_A)],
      [[A, B], replacedBy(ID_A, ID_B)],
    ] as const) {
      const config = ground.config(...secrets);
      await expect(createSignInService(config)).rejects.toEqual(refusal);
      await expect(createNotificationWorker(config)).rejects.toEqual(refusal);
      const { code, err } = await ground.command(["accounts", "list"], ...secrets);
      expect([code, secrets.filter((secret) => err.includes(secret))]).toEqual([1, []]);
    }
    expect((await ground.command(["keys", "reseal", "--check"], B, A)).code).toBe(1);
    expect((await ground.command(["keys", "reseal"], B, A)).code).toBe(0);
    expect(await ground.states(B, A)).toEqual([
      [ID_A, "replaced", 2],
      [ID_B, "newest", 1],
    ]);
    await ground.serve(B);
    await expect(createSignInService(ground.config(A, B))).rejects.toEqual(replacedBy(ID_A, ID_B));
    await ground.serve(C, B);
    expect(await ground.states(C, B)).toEqual([
      [ID_A, "replaced", null],
      [ID_B, "needed", 2],
      [ID_C, "newest", 1],
    ]);
  }, 120_000);

  it("are taken by one of two processes that start at once with different new ones [D-SECRETS-3]", async () => {
    for (let round = 0; round < rounds(2, 10); round += 1) {
      const ground = await Ground.open();
      await ground.serve(A);
      const starts = [B, C].map((first) => createSignInService(ground.config(first, A)));
      const done = await Promise.allSettled<SignInService>(starts);
      for (const each of done) if (each.status === "fulfilled") await each.value.close();
      const [won, lost] = done[0]?.status === "fulfilled" ? [B, done[1]] : [C, done[0]];
      expect(done.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
      expect(lost).toMatchObject({ reason: lacks(won === B ? ID_B : ID_C) });
      await ground.serve(won, A);
    }
  }, 120_000);

  it("whose first one no server has used seal nothing of a command, but of keys reseal [D-SECRETS-3]", async () => {
    const ground = await Ground.open();
    await ground.serve(A);
    const added = await ground.command(["accounts", "create", "--email", "a@example.com"], B, A);
    expect(added).toMatchObject({ code: 0 });
    await ground.serve(A);
    expect(await ground.states(B, A)).toEqual([
      [ID_A, "newest", 2],
      [ID_B, "new", 1],
    ]);
    expect((await ground.command(["keys", "reseal"], B, A)).code).toBe(0);
    await expect(createSignInService(ground.config(A))).rejects.toEqual(lacks(ID_B));
    await ground.serve(B);
  }, 120_000);
});

describe("config check --storage", () => {
  it("opens the storage, says what a start would say of keys.secrets, and writes nothing [D-SECRETS-5]", async () => {
    const ground = await Ground.open();
    const words = ["config", "check", "--storage"];
    expect(await ground.command(words, A)).toMatchObject({
      code: 0,
      out: expect.stringContaining("No server has used this storage yet"),
    });
    await ground.serve(A);
    const before = await everythingIn(ground.place);
    expect(await ground.command(words, A, B)).toMatchObject({
      code: 0,
      out: "The configuration is valid, and keys.secrets fits the storage.\n",
    });
    expect(await ground.command(words, B, A)).toMatchObject({
      code: 0,
      out: expect.stringContaining(`A start makes its first secret, ${ID_B}, the newest.`),
    });
    expect(await ground.command(words, B)).toMatchObject({
      code: 1,
      out: "",
      err: expect.stringMatching(new RegExp(`^The storage needs ${ID_A}, which keys\\.secrets lacks`)),
    });
    expect(await ground.command(["config", "check"], B)).toMatchObject({ code: 0 });
    expect(await everythingIn(ground.place)).toEqual(before);
    await ground.serve(B, A);
    expect(await ground.command(words, A, B)).toMatchObject({
      code: 1,
      err: expect.stringContaining(`put ${ID_B} first, the secret at place 2`),
    });
  }, 120_000);
});
