/** Refuses the passwords and secrets of the examples in production, because they are public. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { readConfiguration } from "../../config/read.ts";
import { ConfigurationError, type SignInService } from "../../lib/index.ts";
import type { ConfigFile, Seed } from "./config-file.ts";

const PUBLISHED = ["../demo/demo.json", "../../examples/conformance/server.json"] as const;

/** @throws ConfigurationError with the path of each value in a production seed that comes from the examples. */
export function refuseDemoSecrets({ config, seed }: ConfigFile): void {
  if (!readConfiguration(config).production) return;
  const demo = publishedSeed();
  const passwords = new Set(demo?.accounts?.map(({ password }) => password));
  const secrets = new Set(demo?.clients?.map(({ client_secret }) => client_secret));
  const receivers = new Set(receiverSecrets(demo).map(([, secret]) => secret));
  const places = [
    ...receiverSecrets(seed).flatMap(([place, secret]) => (receivers.has(secret) ? [place] : [])),
    ...(seed?.accounts ?? []).flatMap(({ password }, i) =>
      typeof password === "string" && passwords.has(password) ? [`accounts[${i}].password`] : [],
    ),
    ...(seed?.clients ?? []).flatMap(({ client_secret }, i) =>
      secrets.has(client_secret) ? [`clients[${i}].client_secret`] : [],
    ),
  ];
  if (places.length === 0) return;
  throw new ConfigurationError(
    places.map((place) => `config.seed.${place}: is public in the examples; choose another one`),
  );
}

/** All values that are public in the examples: the seed of the demo, and the clients of the conformance suite. */
function publishedSeed(): Seed {
  const [demo, suite] = PUBLISHED.map(
    (file) => (JSON.parse(readFileSync(join(import.meta.dirname, file), "utf8")) as { seed: Seed }).seed,
  );
  return { ...demo, clients: [...(demo?.clients ?? []), ...(suite?.clients ?? [])] };
}

/** Both secrets of each receiver, with their paths in the seed. */
function receiverSecrets(seed: Seed): readonly (readonly [string, string])[] {
  const { portals = {}, groups = {}, services = {} } = seed ?? {};
  return Object.entries({ portals, groups, services }).flatMap(([part, entries]) =>
    Object.entries(entries).flatMap(([key, { receiver }]) =>
      (["client_secret", "signing_secret"] as const).flatMap((name) => {
        const secret = receiver?.[name];
        return secret === undefined ? [] : [[`${part}.${key}.receiver.${name}`, secret] as const];
      }),
    ),
  );
}

/**
 * Does the same for accounts in the storage, such as those of a demo database that is now used in production.
 * @throws ConfigurationError with the accounts.
 */
export async function refuseDemoAccounts({
  accounts,
  configuration,
}: Pick<SignInService, "accounts" | "configuration">): Promise<void> {
  if (!configuration.production) return;
  const demo = publishedSeed();
  const problems: string[] = [];
  for (const { email, password } of demo?.accounts ?? []) {
    const account = await accounts.findByLogin(email);
    if (account === undefined || typeof password !== "string") continue;
    if (await accounts.verifyPassword(account.sub, password)) {
      problems.push(`storage: the account ${email} has the password of the examples; change or delete it`);
    }
  }
  if (problems.length > 0) throw new ConfigurationError(problems);
}
