/**
 * A service as a process of its own, to be killed: `node mail-process.ts CONFIG AHEAD [SUB]`. Its clock is `AHEAD`
 * milliseconds ahead. With a `sub`, it changes the password of the account.
 */
import { pino } from "pino";
import { createSignInService } from "../../../lib/index.ts";

const [config = "{}", ahead = "0", sub] = process.argv.slice(2);
const service = await createSignInService({
  ...JSON.parse(config),
  clock: { virtual: true, now: () => Date.now() + Number(ahead) },
  logger: pino({ level: "silent" }),
});
service.events.on("mail.sent", () => console.log("sent"));
console.log("ready");
if (sub !== undefined) {
  await service.accounts.setPassword(sub, `the new password ${Math.random()}`);
  console.log("changed");
}
