/** The verdict at the top of a person's page: why somebody can't sign in, since when, and what helps. */
import type { Diagnosis, SignInCheck } from "../../../accounts/operations/support.ts";
import type { Names } from "../audit-words.ts";
import { addressOf } from "../derived/act.ts";
import type { OfferedAction } from "../derived/record.ts";
import { verbLabel } from "../derived/words.ts";
import type { ConsoleRequest } from "../request.ts";

type Tone = "bad" | "warning" | "good";

/** An answer to the question, and what helps then. */
interface Branch {
  readonly answer: string;
  readonly text: string;
  readonly href?: string;
  readonly label?: string;
  readonly isPrimary?: boolean;
}

export interface Verdict {
  readonly tone: Tone;
  readonly title: string;
  readonly texts: readonly string[];
  readonly help?: { readonly href: string; readonly label: string };
  readonly ask?: { readonly question: string; readonly tries: string; readonly branches: readonly Branch[] };
  readonly summary: string;
  readonly checks: readonly { readonly text: string; readonly tone: Tone; readonly icon: Tone }[];
}

/** The operation that helps, by the check. The others have words only. */
const HELP: Readonly<Record<string, string>> = {
  disabled: "enable",
  no_way_in: "sendReset",
  many_failures: "sendReset",
};

/** @param offered what the operator may do with this account. */
export function verdictOf(
  request: ConsoleRequest,
  sub: string,
  { can_sign_in, headline, checks }: Diagnosis,
  offered: readonly OfferedAction[],
  names: Names,
): Verdict {
  const { t, path } = request;
  const main = checks.find(({ code }) => code === headline);
  const opens = (verb: string) => t("admin.verb.opens", { verb: verbLabel(t, "accounts", verb) });
  const may = (verb: string): boolean => offered.some((each) => each.verb === verb && each.isAllowed);
  const verb = HELP[headline];
  const tone = headline === "clear" ? "good" : can_sign_in ? "warning" : "bad";
  const holding = checks.filter(({ code, holds }) => holds && code !== "clear");
  return {
    tone: headline === "app_stopped" ? "bad" : tone,
    title: sentence(request, headline, main),
    texts: main === undefined ? [] : explained(request, main, names),
    ...(verb !== undefined && may(verb) && { help: { href: addressOf(path, verb), label: opens(verb) } }),
    ...(headline === "app_stopped" && {
      ask: {
        question: t("admin.check.ask"),
        tries: `/audit?${new URLSearchParams({ account: sub, action: "second_factor" })}`,
        branches: [
          {
            answer: t("admin.check.ask.no"),
            text: t("admin.check.ask.no.text"),
            ...(may("sendReset") && {
              href: addressOf(path, "sendReset"),
              label: opens("sendReset"),
              isPrimary: true,
            }),
          },
          {
            answer: t("admin.check.ask.yes"),
            text: t("admin.check.ask.yes.text"),
            ...(may("sendReset") && {
              href: addressOf(path, "removeFactor", { factor: "app" }),
              label: t("admin.person.removeApp"),
            }),
          },
        ],
      },
    }),
    summary: t("admin.check.all", { all: checks.length, problems: holding.length }),
    checks: checks.map((check) => {
      if (check.code === "clear") {
        const good = check.holds ? "good" : "warning";
        return { text: lastSignIn(request, check), tone: good, icon: good };
      }
      if (!check.holds) return { text: t(`admin.check.${check.code}.fine`), tone: "good", icon: "good" };
      const its = check.code === headline && tone === "bad" ? "bad" : "warning";
      return { text: sentence(request, check.code, check), tone: its, icon: its };
    }),
  };
}

/** The values of the sentences: what the check is about. */
function valuesOf({ t, moments }: ConsoleRequest, check: SignInCheck | undefined) {
  const { until, ...detail } = check?.detail ?? {};
  const reason = detail["reason"];
  return {
    ...detail,
    ...(typeof until === "number" && { until: moments(until * 1000).text }),
    ...(typeof reason === "string" && {
      reason: t.has(`admin.mail.${reason}`) ? t(`admin.mail.${reason}`) : reason,
    }),
  };
}

const sentence = (request: ConsoleRequest, code: string, check: SignInCheck | undefined): string =>
  request.t(`admin.check.${code}`, valuesOf(request, check));

function lastSignIn({ t, moments }: ConsoleRequest, { since, detail }: SignInCheck): string {
  if (since === null) return t("admin.check.never");
  return t("admin.check.last", { when: moments(since * 1000).relative, browser: detail["browser"] ?? "–" });
}

/** What is known besides the headline: since when, by whom, and what to do. */
function explained(request: ConsoleRequest, check: SignInCheck, names: Names): readonly string[] {
  const { t, moments } = request;
  const { code, since, by } = check;
  if (code === "clear") return [lastSignIn(request, check)];
  const when = since === null ? undefined : moments(since * 1000);
  const what =
    when === undefined
      ? []
      : by === null
        ? [t("admin.check.since", { when: when.text, ago: when.relative })]
        : [
            t("admin.check.since.by", {
              when: when.text,
              ago: when.relative,
              by: names.inline({ kind: by.kind as "operator", ...(by.id !== null && { id: by.id }) }),
            }),
          ];
  const advice = `admin.check.${code}.text`;
  return [...(t.has(advice) ? [t(advice, valuesOf(request, check))] : []), ...what];
}
