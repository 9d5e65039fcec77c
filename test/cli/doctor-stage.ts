/** Runs `doctor`, and keeps its configurations in a folder. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, expect } from "@jest/globals";
import type { CommandContext } from "../../cli/program/command.ts";
import { here } from "./here.ts";

/** No output may contain these. */
export const SECRET: string = randomBytes(32).toString("base64");
export const PASSWORD = "the-password-of-the-storage";

/** What is found. */
export interface Line {
  readonly code?: string;
  readonly check: string;
  readonly level: string;
  readonly what: string;
  readonly why?: string;
  readonly fix?: string;
}

export const folder: string = mkdtempSync(join(tmpdir(), "doctor-"));
/** Closed after each test. */
export const open: { close(): Promise<unknown> }[] = [];
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Writes a configuration. @returns its path. */
export function write(config: object, name = "sign-in.json", mode = 0o600): string {
  const file = join(folder, name);
  writeFileSync(file, JSON.stringify(config));
  chmodSync(file, mode);
  return file;
}

export async function doctor(
  words: readonly string[],
  context: Partial<CommandContext> = {},
): Promise<{ code: number; lines: readonly Line[]; wrong: readonly Line[]; err: string }> {
  const { code, out, err } = await here(["doctor", "--json", ...words], context);
  for (const secret of [SECRET, PASSWORD]) expect(out + err).not.toContain(secret);
  const lines = out
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Line);
  const wrong = lines.filter(({ level }) => level !== "ok");
  for (const { what, why, fix } of wrong)
    expect([what, why, fix]).toEqual([
      expect.stringMatching(/\.$/u),
      expect.stringMatching(/\.$/u),
      expect.any(String),
    ]);
  return { code, lines, wrong, err };
}

/** A server on a free port. @returns its address. */
export async function serve(listener: Parameters<typeof createServer>[1]): Promise<string> {
  const server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  open.push({
    async close() {
      server.closeAllConnections();
      server.close();
    },
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((each) => each.close()));
});
