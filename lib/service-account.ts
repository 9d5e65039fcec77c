/** The pages under `{base}/account`: the gate, the account page and the delivery console, put together. */
import type { Context } from "koa";
import type { Configuration } from "../config/configuration.ts";
import {
  type AccountPage,
  createAccountGate,
  createAccountPages,
  createReturnPaths,
} from "../interactions/account-pages.ts";
import { createConsolePages, createConsoleSeals } from "../interactions/console-pages.ts";
import type { DeliveryConsole, UnderWay } from "../interactions/delivery-console.ts";
import { createAnswers } from "../interactions/answers.ts";
import type { Pages } from "../interactions/pages.ts";
import type { Form } from "../interactions/forms.ts";
import type { Notifications } from "../notifier/notifications.ts";
import type { AccountInternals } from "./domain/account.ts";
import { ACCOUNT_CLIENT } from "./domain/client.ts";
import { cookieName, sessionCookieName } from "./provider/cookies.ts";
import type { CurrentProvider } from "./provider/current-provider.ts";
import { createSignedIn } from "./provider/account.ts";
import { createSigner, deriveKey, hmac } from "./sealing.ts";
import type { ServiceKeys } from "./keys/service-keys.ts";

/** What the pages are made of. */
export interface ServiceAccountParts {
  readonly configuration: Configuration;
  readonly currentProvider: CurrentProvider;
  readonly accounts: Pick<AccountInternals, "record">;
  readonly keys: Pick<ServiceKeys, "forms">;
  readonly pages: Pages;
  readonly notifications: Notifications;
  readonly readForm: (ctx: Context) => Promise<Form>;
  /** Told about errors that nobody waits for any more. */
  readonly onDefect: (error: unknown) => void;
}

/** Every page that there is; without operators there is no console. */
export function createServiceAccount(parts: ServiceAccountParts): readonly AccountPage[] {
  const { configuration, currentProvider, accounts, keys, pages, notifications, readForm, onDefect } = parts;
  const gate = createAccountGate({
    clientId: ACCOUNT_CLIENT,
    answers: createAnswers(pages),
    findSignedIn: createSignedIn(currentProvider, accounts, sessionCookieName(configuration)),
    returns: createReturnPaths({
      keys: keys.forms.map((key) => deriveKey(hmac(key, "account return"), "sign-in-service account return")),
      cookie: cookieName(configuration, "return"),
      clock: configuration.clock,
    }),
  });
  const operatorPages = createConsolePages({
    pages,
    readForm,
    console: createDeliveryConsole(notifications, onDefect),
    seals: createConsoleSeals(createSigner(keys.forms)),
  });
  return createAccountPages({ pages, gate, operators: configuration.operators, operatorPages });
}

/** Milliseconds for which a page waits for what may take long: less than a request may take. */
const PATIENCE = 3_000;

/**
 * The calls as the console's pages need them.
 * @param patience milliseconds for which what may take long is waited for.
 */
export function createDeliveryConsole(
  notifications: Notifications,
  onDefect: (error: unknown) => void,
  patience: number = PATIENCE,
): DeliveryConsole {
  /** What takes longer goes on; nobody waits for what it comes to. */
  async function patiently<T>(work: Promise<T>): Promise<T | UnderWay> {
    const late = Promise.withResolvers<UnderWay>();
    const timer = setTimeout(() => {
      work.catch(onDefect);
      late.resolve("under way");
    }, patience);
    try {
      return await Promise.race([work, late.promise]);
    } finally {
      clearTimeout(timer);
    }
  }
  return {
    page: (asked) => notifications.page({ ...asked, first: "newest" }),
    find: (id) => notifications.find(id),
    receivers: () => notifications.receivers(),
    redrive: (id, options) => notifications.redrive(id, options),
    redriveAll: (filter, options) => patiently(notifications.redriveAll(filter, options)),
    discard: (id, options) => notifications.discard(id, options),
    pause: (receiver, options) => notifications.pause(receiver, options),
    resume: (receiver, options) => notifications.resume(receiver, options),
    test: (receiver, options) => patiently(notifications.test(receiver, options)),
  };
}
