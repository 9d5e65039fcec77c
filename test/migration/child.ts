/**
 * A migration in a process of its own, with the clock of a fixture. Says how far it is, and stands still at a step: to
 * be killed there.
 */
import { writeSync } from "node:fs";
import { migrateStorage } from "../../lib/migration/migrate.ts";
import type { Place } from "./stage.ts";

const [place = "", now = "", last = ""] = process.argv.slice(2);
const { storage, artifacts } = JSON.parse(place) as Place;
const clock = { now: (): number => Number(now) };
let steps = 0;
const isMigrated = await migrateStorage({ storage, artifacts }, clock, {
  signal: new AbortController().signal,
  onProgress(part, done) {
    writeSync(process.stdout.fd, `${part} ${done}\n`);
    steps += 1;
    if (String(steps) === last) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  },
});
process.stdout.write(`migrated: ${isMigrated}\n`);
