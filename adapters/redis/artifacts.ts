/** Artifacts in Redis: one hash each, sorted sets to find them by, and a script for each change. */
import { type Artifact, type ArtifactFilter, type ArtifactStore, whenNoted } from "../artifacts.ts";
import { type ArtifactParts, createCommit } from "./artifact-commits.ts";
import { type Fields, type Found, type ReadTexts, toFound } from "./artifact-fields.ts";
import { artifactId, part } from "./names.ts";
import { LIST, NOTE_ANSWER, READ_FIELDS, SINCE_ANSWER } from "./read-scripts.ts";
import { REMOVE } from "./scripts.ts";

/** At most so many artifacts are removed in one script, so that nobody waits long for it. */
const STEP = 500;
/** How many artifacts of one account a list shows at most. */
const LONGEST_LIST = 1_000;

const byAge = (one: Found, other: Found): number => (one.born < other.born ? -1 : 1);

interface Reading {
  /** The artifact of an id, while it lives. */
  readonly read: (id: string) => Promise<Artifact | undefined>;
  /** What was found, with the part of it that is kept elsewhere. */
  readonly complete: (id: string, found: Found) => Promise<Artifact>;
}

/** Inside a call of the connection. @param texts where payloads are noted that will be merged. */
export function createReading(
  { ask, prefix, clock }: Omit<ArtifactParts, "connection">,
  texts?: ReadTexts,
): Reading {
  /** A replay that counts for a while has a key of its own, which ends by itself. */
  async function complete(id: string, { artifact, replayUntil }: Found): Promise<Artifact> {
    if (replayUntil === undefined) return artifact;
    const kept = await ask(["get", `${prefix}replay:${id}`]);
    return kept === "" ? artifact : { ...artifact, replay: JSON.parse(kept) as string, replayUntil };
  }

  return {
    complete,
    async read(id) {
      const fields = (await ask(["read", id])).split("\n");
      const found = toFound(id, fields, clock.now());
      const [text] = fields;
      if (text && found?.artifact.uid !== undefined) texts?.set(found.artifact, text);
      return found && complete(id, found);
    },
  };
}

function createReads(parts: ArtifactParts, texts: ReadTexts) {
  const { connection, ask, prefix, clock } = parts;
  const { read, complete } = createReading(parts, texts);

  async function list(index: string, models: readonly string[] = []): Promise<Found[]> {
    const found = await connection.run(LIST, [], [prefix, index, ...models.map(part)]);
    const now = clock.now();
    return (found as [id: string, fields: Fields][])
      .map(([id, fields]) => toFound(id, fields, now))
      .filter((one) => one !== undefined)
      .toSorted(byAge);
  }

  const completed = (found: Found): Promise<Artifact> =>
    complete(artifactId(found.artifact.model, found.artifact.key), found);

  return {
    find: (model, key) => connection.during(() => read(artifactId(model, key))),
    findWithGrant: (model, key) =>
      connection.during(async () => {
        const id = artifactId(model, key);
        const fields = (await ask(["family", id])).split("\n");
        const now = clock.now();
        const found = toFound(id, fields, now);
        if (found === undefined) return undefined;
        const family = fields[READ_FIELDS.length];
        const grant = family && toFound(`Grant:${family}`, fields.slice(READ_FIELDS.length + 1), now);
        return { artifact: await complete(id, found), grant: grant ? grant.artifact : undefined };
      }),
    findByUid: (model, uid) =>
      connection.during(async () => {
        const youngest = (await list(`by-uid:${part(model)}:${part(uid)}`)).at(-1);
        return youngest && completed(youngest);
      }),
    listByAccount: ({ accountId, models, clientIds }) =>
      connection.during(async () => {
        if (models?.length === 0) return [];
        const found = await list(`by-account:${part(accountId)}`, models);
        const wanted = found.filter(
          ({ artifact: { clientId } }) =>
            clientIds === undefined || (clientId !== undefined && clientIds.includes(clientId)),
        );
        return Promise.all(wanted.slice(0, LONGEST_LIST).map(completed));
      }),
  } satisfies Partial<ArtifactStore>;
}

function createRemovals({ connection, prefix, clock }: ArtifactParts) {
  const members = (index: string, last: number): Promise<string[]> =>
    connection.send((client) => client.zrange(prefix + index, "0", String(last)));

  /** @param clients as parts of keys; none: all. */
  async function remove(
    field: "a" | "l",
    value: string,
    ids: readonly string[],
    clients?: readonly string[],
  ): Promise<number> {
    const wanted = clients === undefined ? ["-1"] : [String(clients.length), ...clients];
    const values = [prefix, String(clock.now()), field, value, ...wanted, ...ids];
    return Number(await connection.run(REMOVE, [], values));
  }

  return {
    removeByAccount: ({ accountId, models, clientIds }: ArtifactFilter) =>
      connection.during(async () => {
        const account = part(accountId);
        const kinds = models && new Set(models.map(part));
        const all = await members(`by-account:${account}`, -1);
        const ids = all.filter((id) => kinds?.has(id.slice(0, id.indexOf(":"))) ?? true);
        let removed = 0;
        for (let at = 0; at < ids.length; at += STEP) {
          removed += await remove("a", account, ids.slice(at, at + STEP), clientIds?.map(part));
        }
        return removed;
      }),
    removeByClient: (clientId: string) =>
      connection.during(async () => {
        const client = part(clientId);
        let removed = 0;
        for (;;) {
          const ids = await members(`by-client:${client}`, STEP - 1);
          if (ids.length === 0) return removed;
          removed += await remove("l", client, ids);
        }
      }),
  } satisfies Partial<ArtifactStore>;
}

/** Both are sent at once, not with the other questions of the turn: the note before the answer, and the time counts. */
function createAnswers({ connection, prefix }: ArtifactParts) {
  const hashOf = (model: string, key: string): string => `${prefix}artifact:${artifactId(model, key)}`;
  return {
    markAnswered: (model, key) =>
      connection.during(async () => {
        const at = await connection.timeAt(performance.now());
        connection.run(NOTE_ANSWER, [], [hashOf(model, key), at.toFixed(3)]).catch(() => undefined);
      }),
    sinceAnswer: (model, key) =>
      connection.during(() =>
        whenNoted(async () => {
          const since = await connection.run(SINCE_ANSWER, [], [hashOf(model, key)]);
          return since === "" ? undefined : Number(since);
        }),
      ),
  } satisfies Partial<ArtifactStore>;
}

/** The artifacts part of the storage. */
export function createArtifactStore(parts: ArtifactParts): ArtifactStore {
  const texts: ReadTexts = new WeakMap();
  return {
    ...createReads(parts, texts),
    ...createRemovals(parts),
    commit: createCommit(parts, texts),
    ...createAnswers(parts),
    // Redis forgets by itself what has expired.
    purgeExpired: () => parts.connection.during(async () => 0),
  };
}
