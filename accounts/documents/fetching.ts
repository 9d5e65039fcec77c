/** Fetches documents of clients: with a limit on everything, because strangers choose the addresses. */
import type { Configuration } from "../../config/configuration.ts";
import type { DocumentSettings } from "../../config/clients.ts";
import { guardedFetch, limitedResponse } from "../../core/guarded-fetch.ts";
import { createGuardedAgents, type GuardedAgentOptions } from "../../core/outbound-agents.ts";
import { createAddressRules } from "../../core/outbound-addresses.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import type { DocumentContent } from "../../records/directory/document-kinds.ts";
import { DocumentRefused, readDocument, requireKeepable, usableKeys } from "./document.ts";

const MAX_BYTES = 64 * 1024;
/** For the document and its keys together, however slowly they come. */
const TIMEOUT_MS = 5_000;
const MIN_FRESH_SECONDS = 5 * 60;
const MAX_FRESH_SECONDS = 24 * 60 * 60;

/** The address did not answer with a document. */
export class DocumentUnavailable extends Error {
  /** Whether it said that there is none: 404 or 410. */
  readonly isGone: boolean;

  constructor(
    message: string,
    { cause, isGone = false }: { readonly cause?: unknown; readonly isGone?: boolean } = {},
  ) {
    super(message, { cause });
    this.isGone = isGone;
  }
}

/** A document that was fetched. */
export interface FetchedDocument {
  readonly content: DocumentContent;
  /** For how long it counts. */
  readonly freshMs: number;
}

/** For how long an answer may be kept (RFC 9111 section 5.2.2), between five minutes and a day. */
function freshSeconds({ headers }: Response): number {
  const control = headers.get("cache-control")?.toLowerCase() ?? "";
  if (/\bno-(?:store|cache)\b/u.test(control)) return MIN_FRESH_SECONDS;
  const age = Number(headers.get("age") ?? 0);
  const named = Number(/\bmax-age="?(\d{1,9})/u.exec(control)?.[1] ?? 0);
  const left = Number.isFinite(age) ? named - Math.max(0, age) : named;
  return Math.min(MAX_FRESH_SECONDS, Math.max(MIN_FRESH_SECONDS, left));
}

/** Hosts may only be loopback or private where the configuration names them. */
function namedHosts(allow: DocumentSettings["allow"]): string[] {
  return allow === "any" ? [] : allow.map((each) => new URL(each).hostname.replaceAll(/^\[|\]$/g, ""));
}

/** For tests: names, certificates and times of their own. */
interface FetchingOptions extends Pick<GuardedAgentOptions, "resolve" | "ca"> {
  readonly timeoutMs?: number;
}

/** @returns what fetches the document at an address. It rejects with DocumentUnavailable or DocumentRefused. */
export function createFetching(
  {
    fetch: ownFetch,
    telemetry,
  }: Pick<Configuration, "fetch"> & { readonly telemetry?: Telemetry | undefined },
  { allow, schemes }: DocumentSettings,
  { timeoutMs = TIMEOUT_MS, ...connecting }: FetchingOptions = {},
): (url: string) => Promise<FetchedDocument> {
  const rules = createAddressRules(namedHosts(allow));
  const agents = createGuardedAgents({ ...connecting, rules, keep: 0 });

  async function send(url: string, signal: AbortSignal): Promise<Response> {
    const init: RequestInit = {
      headers: { accept: "application/json", "accept-encoding": "identity" },
      redirect: "manual",
      signal,
    };
    const answer = async (): Promise<Response> =>
      ownFetch === undefined
        ? guardedFetch(agents, new Request(url, init), { bytes: MAX_BYTES, beyond: "refuse" })
        : limitedResponse(await ownFetch(url, init), MAX_BYTES);
    try {
      return await (telemetry?.sent({ whom: "document", method: "GET" }, answer) ?? answer());
    } catch (error) {
      throw new DocumentUnavailable("the document could not be fetched", { cause: error });
    }
  }

  async function json(
    url: string,
    signal: AbortSignal,
  ): Promise<{ readonly response: Response; readonly value: unknown }> {
    const response = await send(url, signal);
    const { status, headers } = response;
    if (status !== 200)
      throw new DocumentUnavailable(`the document was answered with ${status}`, {
        isGone: status === 404 || status === 410,
      });
    // What is small on the way may be large behind it.
    if ((headers.get("content-encoding") ?? "identity").trim().toLowerCase() !== "identity")
      throw new DocumentRefused("form", "the document is compressed");
    const type = headers.get("content-type")?.split(";", 1)[0]?.trim().toLowerCase() ?? "";
    if (!/^application\/json$/u.test(type))
      throw new DocumentRefused("form", "the document is not application/json");
    try {
      return { response, value: JSON.parse(await response.text()) as unknown };
    } catch {
      throw new DocumentRefused("form", "the document is not JSON");
    }
  }

  return async (url) => {
    const signal = AbortSignal.timeout(timeoutMs);
    const { response, value } = await json(url, signal);
    const { jwks_uri: keysAt, ...read } = readDocument(url, value, schemes);
    const keys = keysAt === undefined ? undefined : await json(keysAt, signal);
    const content: DocumentContent = { ...read, ...(keys !== undefined && { jwks: usableKeys(keys.value) }) };
    requireKeepable(content);
    return { content, freshMs: freshSeconds(response) * 1000 };
  };
}
