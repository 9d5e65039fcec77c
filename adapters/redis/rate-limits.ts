/** Shared rate limits: each window is one key, which Redis deletes when it expires. */
import { hash } from "node:crypto";
import type { Clock } from "../../core/clock.ts";
import { ALLOWED, type RateLimiter, type RateLimiterFactory, refused, type Taken } from "../rate-limits.ts";
import { type Connection, script } from "./connection.ts";

/**
 * ARGV: the service's time, points to take (negative: to give back), the limit, and the window in milliseconds. Returns
 * the points taken and the end of the window. A number above the limit was refused and is not stored.
 */
const COUNT = script(`
local now, points, limit, span = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local taken, till = string.match(redis.call("GET", KEYS[1]) or "", "^(%d+) (.+)$")
if not till or tonumber(till) <= now then
  taken, till = 0, string.format("%.3f", now + span)
end
local wanted = math.max(0, taken + points)
if wanted == 0 then
  redis.call("DEL", KEYS[1])
elseif wanted <= limit then
  redis.call("SET", KEYS[1], string.format("%d %s", wanted, till), "PX", math.ceil(tonumber(till) - now))
end
return { tostring(wanted), till }`);

/** Any text as a part of a key. JSON distinguishes lone surrogates, which UTF-8 does not. */
const part = (text: string): string => hash("sha256", JSON.stringify(text), "base64url");

function toTaken([taken = "0", end = "0"]: readonly string[], limit: number, now: number): Taken {
  const left = Number(end) - now;
  return Number(taken) <= limit || left <= 0 ? ALLOWED : refused(left);
}

/**
 * Limiters shared by all processes with this Redis. Their windows follow the clock of the service. Calls take effect in
 * order, because they go through one connection.
 */
export function redisRateLimits(connection: Connection, prefix: string, clock: Clock): RateLimiterFactory {
  return (name, { points, seconds }): RateLimiter => {
    const keyOf = (bucket: string): string => `${prefix}points:${name}:${part(bucket)}`;
    const count = (bucket: string, step: number): Promise<Taken> =>
      connection.during(async () => {
        const now = clock.now();
        const values = [String(now), String(step), String(points), String(seconds * 1_000)];
        const answer = await connection.run(COUNT, [keyOf(bucket)], values);
        return toTaken(answer as readonly string[], points, now);
      });
    return {
      take: (bucket) => count(bucket, 1),
      look: (bucket) =>
        connection.during(async () => {
          const window = await connection.send((client) => client.get(keyOf(bucket)));
          return toTaken(window?.split(" ") ?? [], points - 1, clock.now());
        }),
      async giveBack(bucket) {
        await count(bucket, -1);
      },
    };
  };
}
