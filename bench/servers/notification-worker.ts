/** The worker as a process of its own. */
import { createNotificationWorker, type SignInServiceConfig } from "../../lib/index.ts";
import { serve } from "./ready.ts";

const { config } = JSON.parse(process.argv[2] ?? "{}") as { readonly config: SignInServiceConfig };
const worker = await createNotificationWorker(config);

await serve(async () => ({
  handle: (_request, response) => void response.end(),
  close: () => worker.close(),
}));
