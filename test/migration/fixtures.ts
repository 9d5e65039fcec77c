/** What a storage of version 0.1 left, and what was known of it; see `make-fixtures.md`. */
import type { FirstAuditRecord } from "../../lib/audit/records.ts";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

export interface Tokens {
  readonly access_token: string;
  readonly refresh_token: string;
}

/** What a fixture's own version said of it, through its public calls. */
export interface Manifest {
  /** The clock of the service, which stood still. */
  readonly now: number;
  readonly origin: string;
  readonly callback: string;
  /** `keys.secrets`. */
  readonly secrets: readonly string[];
  /** The `sub` of each. */
  readonly people: Readonly<Record<"ada" | "bob" | "zoe" | "gone", string>>;
  /** The Cookie header of browsers that are signed in. */
  readonly cookies: Readonly<Record<"ada" | "zoe", string>>;
  readonly tokens: {
    /** Refreshed a moment before the end: the same refresh may be repeated. */
    readonly kept: Tokens & { readonly refreshed: Tokens };
    readonly spent: Tokens & { readonly refreshed: Tokens };
    readonly consented: Tokens;
    readonly spentCode: { readonly code: string; readonly tokens: Tokens };
    readonly unusedCode: string;
  };
  readonly accounts: readonly { readonly sub: string; readonly user_id: number }[];
  readonly clients: readonly object[];
  readonly deliveries: readonly {
    readonly id: string;
    readonly sub: string;
    readonly receiver: string;
    readonly state: string;
    readonly sequence: number;
  }[];
  /** The attempts of each delivery. */
  readonly histories: readonly (readonly object[])[];
  readonly receivers: readonly { readonly receiver: string }[];
  readonly audit: readonly FirstAuditRecord[];
}

export interface RedisKey {
  readonly hash?: Readonly<Record<string, string>>;
  /** Members and scores. */
  readonly set?: readonly string[];
  readonly text?: string;
}

export interface Fixture {
  readonly manifest: Manifest;
  /** The database file and its write-ahead log, in Base64. */
  readonly sqlite?: { readonly database: string; readonly log?: string };
  /** The documents of each collection, as Extended JSON. */
  readonly mongodb?: Readonly<Record<string, readonly object[]>>;
  readonly redis?: Readonly<Record<string, RedisKey>>;
}

export function readFixture(name: string): Fixture {
  const file = join(import.meta.dirname, "fixtures", `${name}.json.gz`);
  return JSON.parse(gunzipSync(readFileSync(file)).toString()) as Fixture;
}
