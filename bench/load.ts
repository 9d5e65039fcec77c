/** Generates load: with wrk, if it is installed, for one repeated request; otherwise with our own generator. */
import { spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { type Core, LOAD_CORE, pinned } from "./side.ts";

/** One request. */
export interface LoadRequest {
  readonly method: "GET" | "POST";
  /** Path and query. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Connections of a load that saturates a server. */
export const CONNECTIONS = 32;

/** Whether wrk is installed. */
export function hasWrk(): boolean {
  return spawnSync("wrk", ["--version"]).error === undefined;
}

async function run(command: readonly string[], input = "", core: Core = LOAD_CORE): Promise<string> {
  const [program = "", ...parameters] = pinned(core, command);
  const child = spawn(program, parameters, { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.end(input);
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  const output = await text(child.stdout);
  if ((await ended) !== 0) throw new Error(`${program} failed`);
  return output;
}

/** The result of a load. */
export interface LoadResult {
  readonly perSecond: number;
  readonly answered: number;
  /** What the pattern captured in the responses, in any order. */
  readonly found: readonly string[];
}

interface Job {
  readonly port: number;
  readonly connections: number;
  readonly requests: readonly LoadRequest[];
  /** Missing: each request is sent once. */
  readonly seconds?: number;
  readonly status: number;
  readonly find?: string;
}

async function generate(job: Job, core?: Core): Promise<LoadResult> {
  const script = join(import.meta.dirname, "generator.ts");
  return JSON.parse(await run([process.execPath, script], JSON.stringify(job), core)) as LoadResult;
}

/** Repeats one request. Throws if a response has another status. */
export async function again(
  base: string,
  request: LoadRequest,
  { seconds, status = 200 }: { readonly seconds: number; readonly status?: number },
): Promise<LoadResult> {
  const port = Number(new URL(base).port);
  // wrk takes whole seconds only.
  if (!hasWrk() || request.method !== "GET" || status !== 200 || !Number.isInteger(seconds)) {
    return generate({ port, connections: CONNECTIONS, requests: [request], seconds, status });
  }
  const headers = Object.entries(request.headers).flatMap(([name, value]) => ["-H", `${name}: ${value}`]);
  const url = `http://127.0.0.1:${port}${request.target}`;
  const threads = ["-t", "1", "-c", String(CONNECTIONS), "-d", `${seconds}s`];
  const said = await run(["wrk", ...threads, ...headers, url]);
  const rate = /^Requests\/sec:\s+([\d.]+)/m.exec(said)?.[1];
  if (rate === undefined || /Non-2xx|Socket errors/.test(said)) throw new Error(`wrk: ${said}`);
  return { perSecond: Number(rate), answered: Number(rate) * seconds, found: [] };
}

/**
 * Sends each request once.
 * @returns what `find` captured.
 */
export function once(
  base: string,
  requests: readonly LoadRequest[],
  {
    status = 200,
    find,
    core = LOAD_CORE,
    connections = CONNECTIONS,
  }: {
    readonly status?: number;
    readonly find?: RegExp;
    readonly core?: Core;
    readonly connections?: number;
  } = {},
): Promise<LoadResult> {
  const port = Number(new URL(base).port);
  const job = { port, connections, requests, status };
  return generate({ ...job, ...(find === undefined ? {} : { find: find.source }) }, core);
}
