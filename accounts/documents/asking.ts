/** When a document is fetched, and when not: for a request of its client, for a key that is not known, and daily while there are grants. */
import { documentAddressProblem, type DocumentSettings } from "../../config/clients.ts";
import type { ServiceEvents } from "../../core/events.ts";
import { read } from "../../records/records.ts";
import { DOCUMENT, documentId, type StoredDocument } from "../../records/directory/document-kinds.ts";
import type { ClientRecord } from "../../records/directory/directory.ts";
import type { AccountServices } from "../services.ts";
import { DocumentRefused } from "./document.ts";
import type { Asked, Asking, KeptDocuments } from "./documents.ts";
import { createFetching, DocumentUnavailable } from "./fetching.ts";

const DAY_MS = 86_400_000;
/** For how long an address that had no document is not asked again. */
const FAULT_MS = 60_000;
const MAX_FAULTS = 1_000;
/** How often an assertion with an unknown key may lead to a request. */
const KEYS_MS = 5 * 60_000;
/** On how many days an address has to answer that it is gone. */
const GONE_DAYS = 7;
/** Copies without a grant. */
export const MAX_UNUSED = 10_000;
/** Copies that are looked at together. */
const PAGE = 200;

type Services = Pick<AccountServices, "storage" | "events" | "clock" | "limits" | "telemetry"> &
  Pick<AccountServices, "configuration">;

/** What the storage knows about the address of a document. */
export interface KnownAddress {
  readonly copy: StoredDocument | undefined;
  /** Of the copy; `undefined` if it is blocked. */
  readonly client: ClientRecord | undefined;
  /** Whether the address or its origin is blocked. */
  readonly isBlocked: boolean;
}

/** What is done with what was fetched. */
interface AskedCopies extends Pick<KeptDocuments, "isAllowed" | "keep"> {
  readonly end: (url: string) => Promise<void>;
  readonly look: (url: string) => Promise<KnownAddress>;
}

const askedOf = (client: ClientRecord | undefined): Asked =>
  client === undefined ? { kind: "unknown" } : { kind: "client", client };

export function createAsking(
  { configuration, storage: { records }, events, clock, limits, telemetry }: Services,
  settings: DocumentSettings,
  { isAllowed, keep, end, look }: AskedCopies,
  maxUnused = MAX_UNUSED,
): Asking {
  const fetchDocument = createFetching({ ...configuration, telemetry }, settings);
  const note = (url: string, result: ServiceEvents["document.fetched"]["result"]): void =>
    void events.emit("document.fetched", { host: new URL(url).host, result });
  /** One request at a time for an address. */
  const running = new Map<string, Promise<Asked>>();
  const faults = new Map<string, { readonly until: number; readonly asked: Asked }>();
  const keysAt = new Map<string, number>();

  /** Remembers a fault for a minute; the oldest gives way. */
  function remember(url: string, asked: Asked): Asked {
    faults.delete(url);
    const [oldest] = faults.keys();
    if (faults.size >= MAX_FAULTS && oldest !== undefined) faults.delete(oldest);
    faults.set(url, { until: clock.now() + FAULT_MS, asked });
    return asked;
  }

  async function fetchAndKeep(url: string): Promise<Asked> {
    try {
      const { content, freshMs } = await fetchDocument(url);
      note(url, "success");
      await keep(url, content, { fresh_until: Math.floor(clock.now()) + freshMs });
      faults.delete(url);
      return askedOf((await look(url)).client);
    } catch (error) {
      if (!(error instanceof DocumentRefused || error instanceof DocumentUnavailable)) throw error;
      note(url, error instanceof DocumentRefused ? "refused" : "unavailable");
      return remember(url, { kind: "fault", error });
    }
  }

  function fetchOnce(url: string): Promise<Asked> {
    const already = running.get(url);
    if (already !== undefined) return already;
    const started = fetchAndKeep(url).finally(() => running.delete(url));
    running.set(url, started);
    return started;
  }

  const today = (): string => new Date(clock.now()).toISOString().slice(0, 10);

  /** Removes the copies without a grant that are beyond the newest ones. */
  async function trim(): Promise<void> {
    let seen = 0;
    const newestFirst = { ...DOCUMENT.where("kept", "unused"), descending: true, limit: PAGE };
    for await (const page of records.pages(newestFirst))
      for (const found of page.records) {
        seen += 1;
        if (seen <= maxUnused) continue;
        const ref = DOCUMENT.ref(documentId(read<StoredDocument>(found).value.url));
        await records.transact(async (tx) => {
          if ((await tx.get(ref))?.granted_until === undefined) tx.remove(ref);
        });
      }
  }

  /** Notes a day on which the address is gone, and ends the client after the last one. */
  async function noteGone(url: string): Promise<void> {
    const days = await records.transact(async (tx) => {
      const document = await tx.get(DOCUMENT.ref(documentId(url)));
      if (document === undefined) return 0;
      const gone_on = [...new Set([...(document.gone_on ?? []), today()])];
      tx.put(DOCUMENT.record({ ...document, gone_on }));
      return gone_on.length;
    });
    if (days >= GONE_DAYS) await end(url);
  }

  return {
    async ask(url, { sub, address }) {
      if (documentAddressProblem(url) !== undefined || !isAllowed(url)) return { kind: "unknown" };
      const { copy, client, isBlocked } = await look(url);
      if (copy !== undefined && copy.fresh_until > clock.now()) return askedOf(client);
      const fault = faults.get(url);
      if (fault !== undefined && fault.until > clock.now()) return fault.asked;
      if (running.has(url)) return fetchOnce(url);
      if (isBlocked) return { kind: "unknown" };
      const isNamed = settings.allow !== "any" && settings.allow.includes(url);
      if (copy === undefined && !isNamed) {
        const { origin } = new URL(url);
        const attempt = await limits.document({ sub: await sub(), address, origin });
        if (!attempt.allowed) return { kind: "wait", attempt };
      }
      return fetchOnce(url);
    },

    async newKeys(url) {
      const now = clock.now();
      for (const [each, at] of keysAt) if (at + KEYS_MS <= now) keysAt.delete(each);
      if (keysAt.has(url) || !isAllowed(url)) return false;
      const { copy } = await look(url);
      if (copy?.jwks === undefined || copy.fetched_at + KEYS_MS > now) return false;
      keysAt.set(url, now);
      return (await fetchOnce(url)).kind === "client";
    },

    async refreshDue(signal) {
      await trim();
      const to = Math.floor(clock.now()) - DAY_MS;
      for await (const page of records.pages({ ...DOCUMENT.where("kept", "granted"), to, limit: PAGE }))
        for (const found of page.records) {
          if (signal.aborted) return;
          const { url, gone_on = [] } = read<StoredDocument>(found).value;
          // Those that are gone are asked once a day; others that fail, again with the next pass.
          if (!isAllowed(url) || gone_on.includes(today())) continue;
          const asked = await fetchOnce(url);
          if (asked.kind === "fault" && asked.error instanceof DocumentUnavailable && asked.error.isGone)
            await noteGone(url);
        }
    },
  };
}
