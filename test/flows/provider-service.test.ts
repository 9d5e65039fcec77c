/** This service as the provider of a second one, in one browser. */
import { afterEach, expect, it } from "@jest/globals";
import { decodeJwt } from "jose";
import { createTestSignIn } from "../../testing/index.ts";
import { clientAt } from "./clients.ts";
import { leaveFor, linkTo } from "./provider-party.ts";
import { NEWS, startService } from "./running-service.ts";

const open: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).toReversed()) await each.close();
});

const CLIENT = { client_id: "sign-in", client_secret: "a-secret-of-at-least-32-characters" };

it("signs in at the first service, and is back at the second one with the right methods [D-PROV-37]", async () => {
  const first = await createTestSignIn();
  open.push(first);
  const issuer = first.urls.openid!;
  const second = await startService({
    config: { providers: { corp: { ...CLIENT, issuer, name: "Corp" } } },
  });
  await first.addClient({ ...CLIENT, redirect_uris: [`${second.openid}/providers/corp/callback`] });
  const there = await first.addPerson({ username: "ada-there" });
  const { sub } = second.ada;
  await linkTo(second, sub, { provider: "corp", issuer, subject: there.account.sub });

  const news = clientAt(second, "openid", NEWS);
  const browser = await leaveFor(
    await news.browser().get(news.authorizeUrl({ scope: "openid", claims: '{"id_token":{"amr":null}}' })),
  );
  expect(browser.url.href).toContain(issuer);
  await browser.submit(browser.form("password"), { username: "ada-there", password: there.password });
  const { id_token = "" } = await news.tokensOf(browser);
  expect(decodeJwt(id_token)).toMatchObject({ sub, amr: ["fed"] });
});
