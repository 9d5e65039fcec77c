/**
 * Every page in every state, with realistic data. With custom views, start-up renders all of it, so a broken view stops the
 * start; the tests render it too, and `npm run screens` takes its pictures. A new state of a page needs a row here.
 */
import { errorPage, loggedOutPage, logoutPage, startAgainPage, unavailablePage } from "../answers.ts";
import { confirmPage } from "../confirm.ts";
import { accountSamples } from "./account.ts";
import { consoleSamples } from "./console.ts";
import { ACCOUNT_URL, ADA, asItIs, type Sample, states, type Text } from "./sample.ts";
import { stepSamples } from "./steps.ts";

/** @param text what the strings from outside become. Default: they stay. */
export function samples(text: Text = asItIs): readonly Sample[] {
  const accountUrl = text(ACCOUNT_URL);
  const confirm = { accountUrl, kind: "elsewhere" } as const;
  const loggedOut = { accountUrl, after: "signed out" } as const;
  // The id may be that of a proxy.
  const requestId = text("0f8c2c52-6f0e-4a5f-9a43-5d3b1a7c9e21");
  const error = { accountUrl, error: "invalid_client" };
  return [
    ...stepSamples(text),
    ...states(confirmPage, confirm, {
      "confirm-elsewhere": {},
      "confirm-gone": { kind: "gone" },
      "confirm-taken": { kind: "undo", problem: "taken" },
      "confirm-blocked": { kind: "undo", problem: "blocked" },
      "confirm-undo": {
        kind: "undo",
        email: text(ADA),
        form: { action: text("/confirm"), csrf: text("c") },
      },
      "confirm-undo-identity": {
        kind: "undo-identity",
        provider: text("Google"),
        form: { action: text("/confirm"), csrf: text("c") },
      },
    }),
    ...accountSamples(text),
    ...states(logoutPage, { action: text("/oauth2/logout"), xsrf: text("x") }, { logout: {} }),
    ...states(loggedOutPage, loggedOut, {
      "logged-out": {},
      stayed: { after: "stayed" },
      "account-deleted": { after: "deleted" },
    }),
    ...endedSamples(text, accountUrl),
    ...states(errorPage, error, {
      error: {
        error: text("invalid_redirect_uri"),
        description: text("redirect_uri did not match any of the client's registered redirect_uris"),
        requestId,
      },
      "error-known": {},
      "error-limited": { error: "rate_limited", retryAfter: 30 },
    }),
    ...states(unavailablePage, { accountUrl }, { unavailable: { requestId } }),
    ...consoleSamples(text),
  ];
}

/** "Start again". */
function endedSamples(text: Text, accountUrl: string): readonly Sample[] {
  const ended = { accountUrl, host: text("login.example") };
  const path = text("/interaction/1");
  const again = text("sealed");
  const client = { name: text("News"), client_uri: text("https://news.example.org") };
  return [
    ...states(startAgainPage, ended, {
      "start-again": { action: path },
      "start-again-stopped": {},
      "start-again-of-the-account": {
        reason: "complete",
        path,
        client: { name: text("Account"), own: true },
        again,
      },
      "start-again-name-kept": { reason: "expired", path, client, again, typed: "name" },
      "start-again-all-lost": { reason: "expired", path, typed: "something" },
    }),
    ...(["expired", "complete", "elsewhere", "no-cookies"] as const).flatMap((reason) =>
      states(startAgainPage, ended, {
        [`start-again-${reason}`]: { reason, path, client, again },
        [`start-again-${reason}-client`]: { reason, path, client },
        [`start-again-${reason}-unknown`]: { reason, path },
      }),
    ),
  ];
}
