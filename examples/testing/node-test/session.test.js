/** node:test: a person signs in at two applications, and stays signed in for two weeks. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createTestSignIn } from "sign-in-service/testing";

const DAY = 24 * 3600;
let signIn;

before(async () => {
  signIn = await createTestSignIn();
});
after(() => signIn.close());

test("a person who has signed in to the news is signed in to the shop", async () => {
  const news = await signIn.addClient({ service: "news" });
  const shop = await signIn.addClient({ service: "shop" });

  const ada = await signIn.signInAs("ada", news);
  const { body } = await news.userinfo(ada.tokens.access_token);
  assert.equal(body.sub, ada.account.sub);

  const { loginShown } = await shop.authorize(ada);
  assert.equal(loginShown, false);
});

test("access tokens end after ten hours, and refresh tokens give new ones", async () => {
  const news = await signIn.addClient();
  const { tokens } = await signIn.signInAs("bob", news);

  signIn.clock.advance(10 * 3600);
  assert.equal((await news.userinfo(tokens.access_token)).status, 400);
  const { status, body } = await news.refresh(tokens.refresh_token);
  assert.equal(status, 200);
  assert.equal((await news.userinfo(body.access_token)).status, 200);
});

test("two weeks without a visit end the session", async () => {
  const news = await signIn.addClient();
  const carol = await signIn.signInAs("carol", news);

  signIn.clock.advance(13 * DAY);
  assert.equal((await news.authorize(carol)).loginShown, false);
  signIn.clock.advance(14 * DAY);
  assert.equal((await news.authorize(carol)).loginShown, true);
});
