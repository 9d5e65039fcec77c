/** This version, or a later one (see `planted-format.ts`), as a process of its own. Argument: what it does, as JSON. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Koa from "koa";
import { pino } from "pino";
import type { FormatPath } from "../../../core/storage-formats.ts";
import { live } from "../../faults/campaign/child.ts";
import { plant, throughNext } from "./planted-format.ts";

export interface Job {
  /** How a storage gets to the format of the later version; without it, the process is of this version. */
  readonly next?: FormatPath | undefined;
  readonly config: object;
  /** A command to run; without it, the process serves. */
  readonly command?: readonly string[];
}

async function serve({ next, config }: Job): Promise<void> {
  await live(async () => {
    if (next !== undefined) await plant(next);
    const { createSignInServiceOver } = await import("../../../lib/service.ts");
    const { openStorage } = await import("../../../records/storage.ts");
    const service = await createSignInServiceOver(
      { ...config, logger: pino({ level: "error" }, pino.destination({ dest: 2, sync: true })) } as never,
      (configuration, onWarning) => openStorage(configuration, onWarning, next && throughNext),
      { cheapHashes: true },
    );
    const handle = new Koa().use(service.routes()).callback();
    const server = createServer(
      { keepAliveTimeout: 600_000 },
      (request, response) => void handle(request, response),
    );
    await once(server.listen(0, "127.0.0.1"), "listening");
    process.send?.({ port: (server.address() as AddressInfo).port });
    return {
      async close() {
        server.close();
        server.closeAllConnections();
        await service.close();
      },
    };
  });
}

async function command({ next, command: words = [] }: Job): Promise<void> {
  if (next !== undefined) await plant(next);
  const { here } = await import("../../cli/here.ts");
  const { code, out, err } = await here(words, { err: { write: (text) => process.stderr.write(text) } });
  process.stdout.write(out);
  process.stderr.write(err);
  process.exitCode = code;
}

if (import.meta.main) {
  const job = JSON.parse(process.argv[2] ?? "") as Job;
  await (job.command === undefined ? serve(job) : command(job));
}
