/** Rate limits that all processes share: windows in one table, which need not survive a crash. */
import type { Clock } from "../../core/clock.ts";
import { KeyedBatches } from "../keyed-batches.ts";
import { ALLOWED, type RateLimiter, type RateLimiterFactory, refused, type Taken } from "../rate-limits.ts";
import type { Connections } from "./connection.ts";

/**
 * `sign_in_count` applies steps to one key. A step that would exceed the limit is answered but not applied. Returns
 * for each step the points after it, or for a refused step, the points that it wanted; and when the window ends.
 */
export const POINTS_SCHEMA = `
CREATE UNLOGGED TABLE IF NOT EXISTS sign_in_points (
  key text COLLATE "C" PRIMARY KEY,
  points integer NOT NULL,
  ends_at double precision NOT NULL
);
CREATE INDEX IF NOT EXISTS sign_in_points_end ON sign_in_points (ends_at);
CREATE OR REPLACE FUNCTION sign_in_count(name text, steps integer[], most integer, span double precision, now double precision)
RETURNS TABLE (answers integer[], till double precision) LANGUAGE plpgsql AS $$
DECLARE
  own sign_in_points;
  step integer;
  wanted integer;
BEGIN
  INSERT INTO sign_in_points AS p (key, points, ends_at) VALUES (name, 0, now + span)
    ON CONFLICT (key) DO UPDATE SET points = CASE WHEN p.ends_at > now THEN p.points ELSE 0 END,
      ends_at = CASE WHEN p.ends_at > now AND p.points > 0 THEN p.ends_at ELSE now + span END
    RETURNING * INTO own;
  answers := '{}';
  FOREACH step IN ARRAY steps LOOP
    wanted := greatest(0, own.points + step);
    IF wanted <= most THEN own.points := wanted; END IF;
    answers := answers || wanted;
  END LOOP;
  UPDATE sign_in_points AS p SET points = own.points WHERE p.key = name;
  DELETE FROM sign_in_points AS p WHERE p.key IN
    (SELECT o.key FROM sign_in_points AS o WHERE o.ends_at <= now LIMIT 10 FOR UPDATE SKIP LOCKED);
  till := own.ends_at;
  RETURN NEXT;
END $$;
`;

interface Counted {
  readonly points: number;
  /** Milliseconds until the window ends. */
  readonly left: number;
}

/** The largest batch of steps. */
const BATCH = 100;

/** Limiters shared by all processes with this database. Their windows follow the clock of the service. */
export function postgresRateLimits(connections: Connections, clock: Clock): RateLimiterFactory {
  return (name, { points, seconds }): RateLimiter => {
    async function count(key: string, steps: readonly number[]): Promise<Counted[]> {
      const now = clock.now();
      const values = [key, steps, points, seconds * 1_000, now];
      const text = "SELECT * FROM sign_in_count($1, $2, $3, $4, $5)";
      const [row] = await connections.query<{ answers: readonly number[]; till: number }>(text, values);
      return steps.map((_step, index) => ({
        points: row?.answers[index] ?? 0,
        left: (row?.till ?? now) - now,
      }));
    }
    const steps = new KeyedBatches<number, Counted>(count, BATCH);
    // JSON escapes what a text of PostgreSQL can't hold: NUL and lone surrogates.
    const keyOf = (key: string): string => JSON.stringify([name, key]);
    const decide = ({ points: taken, left }: Counted, limit: number): Taken =>
      taken <= limit ? ALLOWED : refused(left);
    return {
      take: async (key) => decide(await steps.add(keyOf(key), 1), points),
      look: async (key) => decide(await steps.add(keyOf(key), 0), points - 1),
      async giveBack(key) {
        await steps.add(keyOf(key), -1);
      },
    };
  };
}
