/** A process that delivers nothing, creates an account, and is killed right after the commit. */
import type { SignInServiceConfig } from "../../config/input.ts";
import { createSignInService } from "../../lib/index.ts";

const [, , config = "{}"] = process.argv;
const service = await createSignInService(JSON.parse(config) as SignInServiceConfig);
const { sub } = await service.accounts.create({ email: "ada@example.com" });
await service.accounts.delete(sub);
process.kill(process.pid, "SIGKILL");
