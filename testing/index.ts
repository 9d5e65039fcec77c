/** For tests of applications and storage backends that build on sign-in-service. Not for production. */
export { describeStorage } from "./storage/suite.ts";
export type { StorageBackend } from "./storage/stage.ts";
export type { TestRunner } from "./storage/runner.ts";
export {
  createTestSignIn,
  type TestNotification,
  type TestSignIn,
  type TestSignInConfig,
} from "./test-sign-in.ts";
export type {
  SignInAnswers,
  SignInResult,
  TestAnswer,
  TestClient,
  TestPerson,
  TestTokens,
} from "./test-client.ts";
export {
  createTestProvider,
  type ProviderAnswer,
  type ProviderPerson,
  type ProviderRequest,
  type TestProvider,
} from "./test-provider.ts";
export type { ProviderEndpoint, ProviderLie } from "./provider-lies.ts";
export type { TestReceiver } from "./test-receiver.ts";
export type { TestClock } from "./test-clock.ts";
export { Browser, UnexpectedAnswer } from "./browser/browser.ts";
export { createAuthenticator, type TestAuthenticator } from "./authenticator.ts";
export { totpCode } from "./totp-code.ts";
export { Mailbox } from "./mailbox.ts";
