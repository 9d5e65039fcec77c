/** jest: the shop is notified of deleted accounts, even if it fails at first. */
import { afterAll, beforeAll, expect, test } from "@jest/globals";
import { createTestSignIn } from "sign-in-service/testing";

let signIn;

beforeAll(async () => {
  signIn = await createTestSignIn({ notifications: { retryDelays: [60, 3600] } });
});
afterAll(() => signIn.close());

test("a deleted account is told to the shop until the shop accepts it", async () => {
  const shop = await signIn.addReceiver("shop", ["DELETE_ACCOUNT"]);
  const ada = await signIn.addPerson({ services: { shop: 42 } });
  shop.fail({ status: 503, times: 1 });

  await signIn.service.accounts.delete(ada.account.sub);
  await signIn.deliver();
  expect(shop.received.map(({ status }) => status)).toEqual([503]);

  signIn.clock.advance(60);
  await signIn.deliver();
  expect(shop.received.map(({ status }) => status)).toEqual([503, 200]);
  const [first, second] = shop.received;
  expect(second.id).toBe(first.id);
  expect(second.body.data.services).toEqual({ shop: 42 });
});

test("a delivery is parked after its last attempt", async () => {
  const news = await signIn.addReceiver("news", ["DELETE_ACCOUNT"]);
  const bob = await signIn.addPerson({ services: { news: 1 } });
  news.fail({ close: true });

  await signIn.service.accounts.delete(bob.account.sub);
  for (const wait of [0, 60, 3600]) {
    signIn.clock.advance(wait);
    await signIn.deliver();
  }
  const notification = (await signIn.notifications()).find(({ receiver }) => receiver === news.name);
  expect(notification.state).toBe("parked");
  expect(news.received).toHaveLength(3);
});
