/** For the tests of those who build on sign-in-service: nothing here belongs into a running service. */
export { describeStorage } from "./testing/storage/suite.ts";
export { ManualClock, type StorageBackend } from "./testing/storage/stage.ts";
export type { TestRunner } from "./testing/storage/runner.ts";
export { createTestSignIn, type TestSignIn, type TestSignInConfig } from "./testing/test-sign-in.ts";
export type { SentBack, SignInOptions, TestAnswer, TestClient, TestTokens } from "./testing/test-client.ts";
export type { TestClock } from "./testing/test-clock.ts";
export type { TestPerson } from "./testing/test-person.ts";
export type { ToldNotification } from "./testing/told.ts";
export { Browser, type BrowserOptions } from "./testing/browser/browser.ts";
export { UnexpectedAnswer } from "./testing/unexpected-answer.ts";
