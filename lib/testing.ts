/** For tests of applications and storage backends that build on sign-in-service. Not for production. */
export { describeStorage } from "./testing/storage/suite.ts";
export type { StorageBackend } from "./testing/storage/stage.ts";
export type { TestRunner } from "./testing/storage/runner.ts";
export {
  createTestSignIn,
  type TestNotification,
  type TestSignIn,
  type TestSignInConfig,
} from "./testing/test-sign-in.ts";
export type {
  SignInOptions,
  SignInResult,
  TestAnswer,
  TestClient,
  TestPerson,
  TestTokens,
} from "./testing/test-client.ts";
export type { TestReceiver } from "./testing/test-receiver.ts";
export type { TestClock } from "./testing/test-clock.ts";
export { Browser, UnexpectedAnswer } from "./testing/browser/browser.ts";
export { Mailbox } from "./testing/mailbox.ts";
