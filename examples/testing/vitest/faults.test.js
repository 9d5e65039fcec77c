/** vitest: what people see while the storage fails, and the mail that they get. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestSignIn } from "sign-in-service/testing";

let signIn;

beforeAll(async () => {
  signIn = await createTestSignIn();
});
afterAll(() => signIn.close());

test("a code is not lost when the storage fails during its exchange", async () => {
  const news = await signIn.addClient();
  const ada = await signIn.addPerson();
  const { code } = await news.authorize(ada);

  signIn.storage.failCommits(1);
  const failed = await news.exchange(code);
  expect(failed.status).toBe(503);
  expect(failed.headers.get("retry-after")).toBe("5");

  expect((await news.exchange(code)).status).toBe(200);
});

test("the service answers 503 while its storage is away, and goes on when it is back", async () => {
  const news = await signIn.addClient();
  const { tokens } = await signIn.signInAs("bob", news);

  signIn.storage.unavailable();
  expect((await news.userinfo(tokens.access_token)).status).toBe(503);
  // Within a second of the last write.
  await expect.poll(async () => (await signIn.service.health()).ok, { timeout: 5_000 }).toBe(false);

  signIn.storage.mend();
  expect((await news.userinfo(tokens.access_token)).status).toBe(200);
});

test("people are told by mail that their password has changed", async () => {
  const carol = await signIn.addPerson({ email: "carol@example.com" });
  await signIn.service.accounts.setPassword(carol.account.sub, "a new password of carol");

  const [mail] = await signIn.mails();
  expect(mail.to).toBe("carol@example.com");
  expect(mail.subject).toContain("password");
});
