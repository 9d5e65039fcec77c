/** The other process of `two-processes.ts`: opens stores and calls them for the test. */
import type { RecordStore } from "../../adapters/record-store.ts";
import { openAt } from "./open-at.ts";
import type { Call, Reply } from "./two-processes.ts";

interface Opened {
  /** The time of the test's clock at its last call. */
  now: number;
  readonly store: Promise<RecordStore>;
}

const stores = new Map<number, Opened>();

async function open(address: string, opened: { readonly now: number }): Promise<RecordStore> {
  return openAt(address, { virtual: true, now: () => opened.now });
}

async function answer({ store: number, method, args, now }: Call): Promise<unknown> {
  if (method === "open") {
    const opened = { now } as Opened & { store: Promise<RecordStore> };
    stores.set(number, opened);
    opened.store = open(String(args[0]), opened);
    await opened.store;
    return undefined;
  }
  const opened = stores.get(number);
  if (opened === undefined) throw new TypeError("this store is not open");
  opened.now = now;
  const store = await opened.store;
  return Reflect.apply(store[method] as () => unknown, store, [...args]);
}

process.on("message", (call: Call) => {
  const reply = (rest: Omit<Reply, "id">): void => void process.send?.({ id: call.id, ...rest });
  answer(call).then(
    (value) => reply({ value }),
    (error: unknown) => {
      const { name, message } = error as Error;
      reply({ error: { name, message, ...(error as object) } });
    },
  );
});
