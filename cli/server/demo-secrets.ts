/** Refuses the passwords and secrets of the examples in production, because they are public. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { openReceiver, type OpenedReceiver } from "../../accounts/receivers.ts";
import { ConfigurationError, SignInError, type SignInService } from "../../lib/index.ts";
import { signingSecrets } from "../../config/value-forms.ts";
import { loadServiceKeys, type ServiceKeys } from "../../accounts/keys/service-keys.ts";
import { hmac } from "../../core/sealing.ts";
import type { Storage } from "../../records/storage.ts";
import type { ConfigFile, Seed } from "./config-file.ts";

const PUBLISHED = ["../demo/demo.json", "../../examples/conformance/server.json"] as const;

/** Of the receiver of account events in the documentation and in `examples/events`. */
const EVENTS_SECRET = "whsec_c2VjcmV0IG9mIHRoZSByZWNlaXZlciBvZiB0aGUgY3Jt";

/** @throws ConfigurationError with the path of each value in production that comes from the examples. */
export function refuseDemoSecrets({ configuration, seed }: ConfigFile): void {
  if (!configuration.production) return;
  const demo = publishedSeed();
  const passwords = new Set(demo?.accounts?.map(({ password }) => password));
  const secrets = new Set(demo?.clients?.map(({ client_secret }) => client_secret));
  const receivers = new Set(receiverSecrets(demo).map(([, secret]) => secret));
  const ofEvents = Object.entries(configuration.events.receivers).flatMap(([key, { signing_secret }]) =>
    signingSecrets(signing_secret).includes(EVENTS_SECRET) ? [`events.receivers.${key}.signing_secret`] : [],
  );
  const inSeed = [
    ...receiverSecrets(seed).flatMap(([place, secret]) => (receivers.has(secret) ? [place] : [])),
    ...(seed?.accounts ?? []).flatMap(({ password }, i) =>
      typeof password === "string" && passwords.has(password) ? [`accounts[${i}].password`] : [],
    ),
    ...(seed?.clients ?? []).flatMap(({ client_secret }, i) =>
      typeof client_secret === "string" && secrets.has(client_secret) ? [`clients[${i}].client_secret`] : [],
    ),
  ];
  const places = [...ofEvents, ...inSeed.map((place) => `seed.${place}`)];
  if (places.length === 0) return;
  throw new ConfigurationError(
    places.map((place) => `config.${place}: is public in the examples; choose another one`),
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
        return typeof secret !== "string" ? [] : [[`${part}.${key}.receiver.${name}`, secret] as const];
      }),
    ),
  );
}

/**
 * Does the same for what is stored, such as in a demo database that is now used in production.
 * @throws ConfigurationError with the accounts, clients and receivers.
 */
export async function refuseStoredDemoSecrets(
  { accounts, configuration }: Pick<SignInService, "accounts" | "configuration">,
  storage: Storage,
): Promise<void> {
  if (!configuration.production) return;
  const published = publishedSeed();
  const keys = await loadServiceKeys(configuration, storage, { mustExist: true });
  const problems = [
    ...(await publishedPasswords(accounts, published)),
    ...(await publishedClients(storage, keys, { published, now: configuration.clock.now() / 1000 })),
    ...(await publishedReceivers(storage, keys, published)),
  ].map((text) => `storage: ${text}`);
  if (problems.length > 0) throw new ConfigurationError(problems);
}

async function publishedPasswords(
  accounts: SignInService["accounts"],
  published: Seed,
): Promise<readonly string[]> {
  const found: string[] = [];
  for (const { email, password } of published?.accounts ?? []) {
    const account = await accounts.findByLogin(email);
    if (account === undefined || typeof password !== "string") continue;
    if (await accounts.verifyPassword(account.sub, password))
      found.push(`the account ${email} has the password of the examples; change or delete it`);
  }
  return found;
}

async function publishedClients(
  { directory }: Storage,
  { clientSecrets }: ServiceKeys,
  { published, now }: { readonly published: Seed; readonly now: number },
): Promise<readonly string[]> {
  const digests = new Set(
    published?.clients?.flatMap(({ client_secret }) =>
      typeof client_secret === "string" ? [hmac(clientSecrets, client_secret)] : [],
    ),
  );
  const clients = await directory.listClients();
  return clients
    .filter(({ secrets }) =>
      secrets.some(({ hash, expires_at = Infinity }) => digests.has(hash) && now < expires_at),
    )
    .map(
      ({ client_id }) =>
        `the client ${client_id} has a secret of the examples; rotate it or remove the client`,
    );
}

function isPublished(open: () => OpenedReceiver, secrets: ReadonlySet<string>): boolean {
  try {
    const { client_secret, signing_secret = "" } = open();
    return secrets.has(client_secret) || secrets.has(signing_secret);
  } catch (error) {
    // No key opens it any more: its deliveries wait for new credentials.
    if (error instanceof SignInError) return false;
    throw error;
  }
}

async function publishedReceivers(
  { directory }: Storage,
  { sealer }: ServiceKeys,
  published: Seed,
): Promise<readonly string[]> {
  const secrets = new Set(receiverSecrets(published).map(([, secret]) => secret));
  const found: string[] = [];
  for (const kind of ["portal", "group", "service"] as const) {
    for (const { key, receiver } of await directory.listEntries(kind)) {
      if (receiver !== null && isPublished(() => openReceiver(sealer, kind, key, receiver), secrets))
        found.push(`the receiver of the ${kind} ${key} has a secret of the examples; put another one`);
    }
  }
  return found;
}
