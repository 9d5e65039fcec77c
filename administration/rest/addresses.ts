/**
 * The addresses of the REST API: matched on the raw path, each segment decoded once, so that an identifier may hold a slash. Proxies often
 * refuse or decode `%2F`, so every segment may also be `b64:` and Base64url.
 */
import { type AnyRow, isOn } from "../../accounts/operations/operation.ts";
import { type Noun, type Route, routeOf, rowsOf, searchPathOf, TABLES } from "../tables.ts";
import { RequestProblem } from "./problems.ts";

/** An operation with its address. */
export interface Address extends Omit<Route, "method"> {
  readonly method: string;
  readonly noun: Noun;
  readonly verb: string;
  readonly row: AnyRow;
}

/** What a path leads to. */
export interface Destination {
  /** Such as `/v1/accounts/{sub}`: without identifiers, for the log. */
  readonly template: string;
  readonly byMethod: ReadonlyMap<string, Address>;
  /** What the path names. */
  readonly target: readonly string[];
}

/** No identifier is longer. */
const MAX_SEGMENT = 4_096;

const malformed = (): RequestProblem =>
  new RequestProblem("malformed_request", { detail: "the path is malformed" });

/** A segment of the path. @throws RequestProblem for a bad escape, NUL, and what a proxy might resolve. */
export function decodeSegment(raw: string): string {
  if (raw.length > MAX_SEGMENT) throw malformed();
  const text = raw.startsWith("b64:") ? fromBase64(raw.slice("b64:".length)) : unescaped(raw);
  if (text === "" || text === "." || text === ".." || text.includes("\0")) throw malformed();
  return text;
}

function unescaped(raw: string): string {
  try {
    return decodeURIComponent(raw);
  } catch {
    throw malformed();
  }
}

function fromBase64(raw: string): string {
  const bytes = Buffer.from(raw, "base64url");
  const text = bytes.toString("utf8");
  // Each text is written in one way only.
  if (bytes.toString("base64url") !== raw || !Buffer.from(text, "utf8").equals(bytes)) throw malformed();
  return text;
}

function addressesOf(noun: Noun, verb: string, row: AnyRow): readonly Address[] {
  const address = { noun, verb, row, ...routeOf(noun, verb, row) };
  const path = searchPathOf(noun, row);
  // The address of a GET ends in the logs of proxies.
  return path === undefined ? [address] : [address, { ...address, method: "POST", path, isQuery: false }];
}

/** Every operation that the REST API has. */
export const ADDRESSES: readonly Address[] = (Object.keys(TABLES) as Noun[]).flatMap((noun) =>
  Object.entries(rowsOf(noun))
    .filter(([, row]) => isOn(row, "rest"))
    .flatMap(([verb, row]) => addressesOf(noun, verb, row)),
);

const isName = (segment: string): boolean => segment.startsWith("{");

/** Finds what a raw path leads to; `undefined` if it is no address. @throws RequestProblem for a malformed segment. */
export function createFinder(addresses: readonly Address[]): (path: string) => Destination | undefined {
  const forms = Map.groupBy(addresses, ({ path }) => path.replaceAll(/\{\w+\}/gu, "{}"));
  const known = [...forms].map(([form, all]) => ({
    segments: form.split("/"),
    template: all[0]?.path ?? "",
    byMethod: new Map(all.map((address) => [address.method, address])),
  }));
  // What is written out comes before what is named: `deliveries/stats` is no delivery.
  known.sort((one, other) => one.segments.filter(isName).length - other.segments.filter(isName).length);
  return (path) => {
    const raw = path.split("/");
    const found = known.find(
      ({ segments }) =>
        segments.length === raw.length &&
        segments.every((segment, index) => (isName(segment) ? raw[index] !== "" : segment === raw[index])),
    );
    if (found === undefined) return undefined;
    const { segments, template, byMethod } = found;
    const target = raw.filter((_segment, index) => isName(segments[index] ?? "")).map(decodeSegment);
    return { template, byMethod, target };
  };
}
