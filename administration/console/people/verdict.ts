/** The verdict at the top of a person's page: why somebody can't sign in, since when, and what helps. */
import type { Diagnosis, SignInCheck } from "../../../accounts/operations/support.ts";
import { addressOf } from "../derived/act.ts";
import type { OfferedAction } from "../derived/record.ts";
import { verbLabel } from "../derived/words.ts";
import { shortened } from "../derived/values.ts";
import { type ConsoleRequest, segmentOf } from "../request.ts";
import type { PersonData } from "./sections.ts";

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
  readonly ask?: {
    readonly question: string;
    readonly texts: readonly string[];
    readonly tries: string;
    readonly branches: readonly Branch[];
  };
  /** The record that it is about. */
  readonly about?: { readonly href: string; readonly label: string };
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
  { can_sign_in, headline, checks }: Diagnosis,
  offered: readonly OfferedAction[],
  data: Pick<PersonData, "account" | "factors" | "names" | "tries" | "services">,
): Verdict {
  const { t, path, opens } = request;
  const main = checks.find(({ code }) => code === headline);
  const opening = (verb: string) => t("admin.verb.opens", { verb: verbLabel(t, "accounts", verb) });
  const sentence = (code: string, check: SignInCheck | undefined): string =>
    t(`admin.check.${code}`, valuesOf(request, check, data));
  const may = (verb: string): boolean => offered.some((each) => each.verb === verb && each.isAllowed);
  const verb = HELP[headline];
  // Whoever has stopped the app knows the password, even if the person has other ways in.
  const isBad = !can_sign_in || headline === "app_stopped";
  const tone = headline === "clear" ? "good" : isBad ? "bad" : "warning";
  const shown = checks.map((check) => {
    if (check.code === "clear") {
      const good = check.holds ? "good" : "warning";
      return { text: lastSignIn(request, check), tone: good, icon: good } as const;
    }
    if (!check.holds)
      return { text: t(`admin.check.${check.code}.fine`), tone: "good", icon: "good" } as const;
    const its = check.code === headline && tone === "bad" ? "bad" : "warning";
    return { text: sentence(check.code, check), tone: its, icon: its } as const;
  });
  // The last check is what is left if nothing is wrong: it counts as fine.
  const countOf = (wanted: Tone): number =>
    shown.filter((check, i) => (checks[i]?.code === "clear" ? "good" : check.tone) === wanted).length;
  const client = main?.detail["client"];
  const aboutClient =
    typeof client === "string" ? { href: `/clients/${segmentOf(client)}`, label: client } : undefined;
  return {
    tone,
    title: sentence(headline, main),
    texts: main === undefined ? [] : explained(request, main, data),
    ...(verb !== undefined && may(verb) && { help: { href: addressOf(path, verb), label: opening(verb) } }),
    ...(headline === "app_stopped" && { ask: askingOf(request, checks, may, data) }),
    ...(aboutClient !== undefined && opens("clients") && { about: aboutClient }),
    summary: t("admin.check.all", {
      all: checks.length,
      problems: countOf("bad"),
      warnings: countOf("warning"),
      fine: countOf("good"),
    }),
    checks: shown,
  };
}

/** Codes come only after the right password: so the answer to this question decides what helps. */
function askingOf(
  { t, moments, path }: ConsoleRequest,
  checks: readonly SignInCheck[],
  may: (verb: string) => boolean,
  { account, factors, tries }: Pick<PersonData, "account" | "factors" | "tries">,
): NonNullable<Verdict["ask"]> {
  const refused = tries.find(({ action }) => action === "second_factor");
  const from = [refused?.address, refused?.browser].filter(Boolean).join(", ");
  const last = checks.find(({ code }) => code === "clear");
  const codes = factors.recovery_codes_left;
  const ways = [
    ...factors.passkeys.map(({ name }) => `“${shortened(name)}”`),
    ...(codes > 0 ? [t("admin.check.ask.codes", { count: codes })] : []),
  ];
  const opening = (verb: string) => t("admin.verb.opens", { verb: verbLabel(t, "accounts", verb) });
  return {
    question: t("admin.check.ask"),
    texts: [
      ...(from === "" ? [] : [t("admin.check.from", { from })]),
      ...(last === undefined || last.since === null
        ? []
        : [
            t("admin.check.good", {
              when: moments(last.since * 1000).relative,
              browser: last.detail["browser"] ?? "–",
            }),
          ]),
    ],
    tries: `/audit?${new URLSearchParams({ account: account.sub, action: "second_factor" })}`,
    branches: [
      {
        answer: t("admin.check.ask.no"),
        text: t("admin.check.ask.no.text"),
        ...(may("sendReset") && {
          href: addressOf(path, "sendReset"),
          label: opening("sendReset"),
          isPrimary: true,
        }),
      },
      {
        answer: t("admin.check.ask.yes"),
        text:
          ways.length === 0
            ? t("admin.check.ask.yes.none")
            : t("admin.check.ask.yes.text", { ways: new Intl.ListFormat(t.locale).format(ways) }),
        ...(may("removeFactors") && {
          href: addressOf(path, "removeFactor", { factor: "app" }),
          label: t("admin.person.removeApp"),
        }),
      },
    ],
  };
}

/** The values of the sentences: what the check is about. */
function valuesOf(
  { t, moments }: ConsoleRequest,
  check: SignInCheck | undefined,
  { services }: Pick<PersonData, "services">,
) {
  const { until, ...detail } = check?.detail ?? {};
  const { reason, service = "" } = detail;
  const name = shortened(services.get(String(service))?.name ?? String(service));
  return {
    ...detail,
    ...(name !== "" && { service: name }),
    // People know the service, not what its client is called.
    ...(name !== "" && check?.code === "factor_required" && { client: name }),
    ...(typeof until === "number" && { until: moments(until * 1000).text }),
    ...(typeof reason === "string" && {
      reason: t.has(`admin.mail.${reason}`) ? t(`admin.mail.${reason}`) : reason,
    }),
  };
}

function lastSignIn({ t, moments }: ConsoleRequest, { since, detail }: SignInCheck): string {
  if (since === null) return t("admin.check.never");
  return t("admin.check.last", { when: moments(since * 1000).relative, browser: detail["browser"] ?? "–" });
}

/** What is known besides the headline: since when, by whom, and what to do. */
function explained(
  request: ConsoleRequest,
  check: SignInCheck,
  data: Pick<PersonData, "names" | "services">,
): readonly string[] {
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
              by: data.names.inline({ kind: by.kind as "operator", ...(by.id !== null && { id: by.id }) }),
            }),
          ];
  const advice = `admin.check.${code}.text`;
  return [...(t.has(advice) ? [t(advice, valuesOf(request, check, data))] : []), ...what];
}
