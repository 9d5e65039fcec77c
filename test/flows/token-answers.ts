/** The common properties of token endpoint responses. */
import { setTimeout as pause } from "node:timers/promises";
import { expect } from "@jest/globals";
import type { TestAnswer } from "../../testing/test-client.ts";

const MEMBERS = ["access_token", "token_type", "expires_in", "refresh_token"];

/** Waits until another exchange of a code is a replay: within a second of the first they are in flight together. */
export const untilReplay = (): Promise<void> => pause(1_100);

/** Checks an error response. */
export function expectRefusal({ status, headers, body }: TestAnswer, error: string, expected = 400): void {
  expect({ status, error: body["error"] }).toEqual({ status: expected, error });
  expect(Object.keys(body)).toEqual(["error", "error_description"]);
  expect(body["error_description"]).toEqual(expect.stringMatching(/./));
  expect(headers.get("content-type")).toContain("application/json");
  expect(headers.get("cache-control")).toBe("no-store");
}

/** Checks a token response: the documented members in order, then `more`. */
export function expectTokens({ status, headers, body }: TestAnswer, more: readonly string[] = []): void {
  expect(status).toBe(200);
  expect(Object.keys(body)).toEqual([...MEMBERS, ...more]);
  expect(body).toMatchObject({ token_type: "bearer", expires_in: 36_000 });
  // Opaque, with at least 256 bits.
  expect(body["access_token"]).toMatch(/^[\w-]{43,}$/);
  expect(body["refresh_token"]).toMatch(/^[\w-]{43,}$/);
  expect([...headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
  expect(headers.get("content-type")).toContain("application/json");
  expect(headers.get("cache-control")).toBe("no-store");
}
