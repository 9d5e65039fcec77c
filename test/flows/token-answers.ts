/** What every answer of the token endpoint has to look like. */
import { expect } from "@jest/globals";
import type { Answer } from "./relying-party.ts";

const MEMBERS = ["access_token", "token_type", "expires_in", "refresh_token"];

/** A refusal is told in the documented way and in no other. */
export function expectRefusal({ status, headers, body }: Answer, error: string, expected = 400): void {
  expect({ status, error: body["error"] }).toEqual({ status: expected, error });
  expect(Object.keys(body)).toEqual(["error", "error_description"]);
  expect(body["error_description"]).toEqual(expect.stringMatching(/./));
  expect(headers.get("content-type")).toContain("application/json");
  expect(headers.get("cache-control")).toBe("no-store");
}

/** The documented members in their order, and `more` after them. */
export function expectTokens({ status, headers, body }: Answer, more: readonly string[] = []): void {
  expect(status).toBe(200);
  expect(Object.keys(body)).toEqual([...MEMBERS, ...more]);
  expect(body).toMatchObject({ token_type: "bearer", expires_in: 36_000 });
  // 256 bits and more, and nothing that could be read.
  expect(body["access_token"]).toMatch(/^[\w-]{43,}$/);
  expect(body["refresh_token"]).toMatch(/^[\w-]{43,}$/);
  expect([...headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
  expect(headers.get("content-type")).toContain("application/json");
  expect(headers.get("cache-control")).toBe("no-store");
}
