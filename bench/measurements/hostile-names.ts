/** What a service on SQLite keeps of the names that strangers type, in a process that has little memory. */
import { join } from "node:path";
import type { LoadRequest } from "../load.ts";
import type { Measurement, Row } from "../result.ts";
import { CALLBACK, CLIENT } from "../servers/people.ts";
import { startSide } from "../side.ts";
import { openWire, type Wire } from "../wire.ts";

/** MB of the process's heap, and MB by which what it keeps may grow. */
const HEAP = 160;
const MOST = 30;

/**
 * Without a bound of its own the young generation may grow to 200 MB beside the old one. V8 then fears that not all of
 * it fits into the old one, and collects everything again and again.
 */
const LITTLE_MEMORY = [`--max-old-space-size=${HEAP}`, "--max-semi-space-size=16"];

/** Connections at once. */
const CONNECTIONS = 4;
/** Tries after which the code is compiled and the caches are full, with names as people have them. */
const WARM_UP = 1_000;

/** NFKC turns this one character into eighteen. */
const LIGATURE = "\ufdfa";
/** Bytes of the ligature in a form. */
const ENCODED = 9;

/** What is submitted: so many forms, each with a name and an address of its own. */
interface Flood {
  readonly work: string;
  readonly count: number;
  readonly name: (number: number) => string;
}

const WARMING: Flood = { work: "usual names", count: WARM_UP, name: (number) => `person-${number}` };
const FLOODS: readonly Flood[] = [
  {
    work: "names of 60 kB",
    count: 20_000,
    name: (number) => `${number}`.padEnd(60_000 / ENCODED, LIGATURE),
  },
  {
    work: "names of 254 chars",
    count: 200_000,
    name: (number) => `${number}`.padEnd(254, LIGATURE),
  },
];

/** A password that is too long is refused without hashing: it takes its points all the same, in a fraction of the time. */
const PASSWORD = "x".repeat(129);

interface Form {
  readonly action: string;
  readonly cookie: string;
  readonly csrf: string;
}

/** A sign-in that waits for a name: it takes any number of wrong ones. */
async function begin(base: string): Promise<Form> {
  const { client_id } = CLIENT;
  const query = new URLSearchParams({ client_id, response_type: "code", redirect_uri: CALLBACK });
  const begun = await fetch(`${base}/oauth2/authorize?${query.toString()}`, { redirect: "manual" });
  const cookie = begun.headers.getSetCookie().map((each) => each.split(";")[0]);
  const url = new URL(begun.headers.get("location") ?? "", base);
  const page = await fetch(url, { headers: { cookie: cookie.join("; "), accept: "text/html" } });
  const csrf = /name="csrf" value="([^"]+)"/.exec(await page.text())?.[1];
  if (csrf === undefined) throw new Error("there is no sign-in form");
  return { action: url.pathname, cookie: cookie.join("; "), csrf };
}

function submission({ action, cookie, csrf }: Form, username: string, number: number): LoadRequest {
  const address = [10, number >> 16, (number >> 8) & 255, number & 255].join(".");
  return {
    method: "POST",
    target: action,
    headers: {
      cookie,
      accept: "text/html",
      "content-type": "application/x-www-form-urlencoded",
      "x-forwarded-for": address,
    },
    body: new URLSearchParams({ csrf, username, password: PASSWORD }).toString(),
  };
}

async function submit(port: number, form: Form, { work, count, name }: Flood): Promise<void> {
  let next = 0;
  const one = async (wire: Wire): Promise<void> => {
    while (next < count) {
      const number = next;
      next += 1;
      const answer = await wire.ask(submission(form, name(number), number)).catch((cause: unknown) => {
        throw new Error(`the process ended after ${number} of ${count} ${work}`, { cause });
      });
      if (!/^HTTP\/1\.1 4(?:00|29)/.test(answer)) throw new Error(`unexpected: ${answer.slice(0, 500)}`);
    }
  };
  const wires = await Promise.all(Array.from({ length: CONNECTIONS }, () => openWire(port)));
  try {
    await Promise.all(wires.map((wire) => one(wire)));
  } finally {
    for (const wire of wires) wire.close();
  }
}

export const hostileNames: Measurement = {
  name: "hostile-names",
  async run({ rounds }, folder) {
    const options = { file: join(folder, "names.db") };
    const service = await startSide("strangers", { options, node: LITTLE_MEMORY });
    const base = service.ready["base"] ?? "";
    const port = Number(new URL(base).port);
    const heap = async (): Promise<number> => Number(await (await fetch(`${base}/heap`)).text()) / 1e6;
    const share = rounds < 5 ? 0.1 : 1;
    try {
      const form = await begin(base);
      await submit(port, form, WARMING);
      const before = await heap();
      const rows: Row[] = [];
      for (const flood of FLOODS) {
        const count = flood.count * share;
        await submit(port, form, { ...flood, count });
        const after = await heap();
        rows.push({
          work: `${count.toLocaleString("en")} ${flood.work}`,
          against: `what the heap of ${HEAP} MB keeps`,
          value: after - before,
          unit: "MB",
          target: MOST,
          isPromise: true,
          raw: `${before.toFixed(1)} MB before, ${after.toFixed(1)} MB after`,
        });
      }
      return rows;
    } finally {
      await service.stop();
    }
  },
};
