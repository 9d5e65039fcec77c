/**
 * Blocks the sign-in of people who have left, and ends what they are signed in to.
 *
 *     ADMIN_TOKEN=sis_… npx node examples/administration/offboard.ts https://admin.example.com ada@example.com …
 */
import { AdministrationError, createAdministrationClient } from "../../administration/index.ts";

const [, , url = "", ...people] = process.argv;
const { ADMIN_TOKEN: token = "" } = process.env;
const administration = createAdministrationClient({ url, token });
for (const search of people) {
  try {
    for await (const { sub, disabled } of administration.accounts.list({ search }))
      if (!disabled) await administration.accounts.disable(sub);
    console.log(`${search}: blocked`);
  } catch (error) {
    console.error(`${search}: ${error instanceof AdministrationError ? error.code : String(error)}`);
    process.exitCode = 1;
  }
}
