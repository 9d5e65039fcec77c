/** What the consent page says of a client that nobody registered: what is known of it, apart from what it claims. */
import type { Translator } from "../../core/texts.ts";
import { shownEmail } from "../../accounts/names.ts";
import type { Locals } from "../look/views.ts";
import type { StepDescription } from "./described-step.ts";
import type { RunningSignIn, SignInClient, UnregisteredClient } from "./running-sign-in.ts";

type Asking = Pick<RunningSignIn, "client" | "account" | "apis">;

/** What the page consists of, in its order. */
interface UnregisteredTexts {
  /** Who it is, or says that it is. */
  readonly claims: readonly string[];
  /** What follows from it. */
  readonly asides: readonly string[];
  readonly cautions: readonly string[];
}

/** Only a redirect address of its own host shows that it is this host. */
const isProven = ({ how }: UnregisteredClient): boolean => how === "https";

/** "…, and calls itself": the name goes where the mark is, isolated from the sentence. */
const MARK = "\n";

function namedText(t: Translator, client: UnregisteredClient, name: string): string {
  return t(isProven(client) ? "unregistered.named" : "unregistered.named.device", { name });
}

/** The title of the page. It never has the name that the client calls itself. */
export function unregisteredTitle(t: Translator, client: UnregisteredClient, { apis }: Asking): string {
  const api = apis[0]?.name ?? "";
  return isProven(client)
    ? t("unregistered.title.https", { host: client.host, api })
    : t("unregistered.title.device", { api });
}

/** Where the person continues to, on the pages before. */
export function unregisteredLead(t: Translator, client: UnregisteredClient): string {
  return isProven(client) ? t("lead", { client: client.host }) : t("unregistered.lead");
}

export function unregisteredTexts(
  t: Translator,
  client: UnregisteredClient,
  { account }: Pick<Asking, "account">,
): UnregisteredTexts {
  const { host, name, scheme, checked } = client;
  const service = t("service.name");
  const asides = [t("unregistered.nothing"), t("unregistered.kept")];
  const signedIn = t("consent.account", { account: account === undefined ? "" : shownEmail(account.email) });
  if (isProven(client)) {
    return {
      claims: name === undefined ? [] : [t("unregistered.named", { name })],
      asides: [...asides, t("unregistered.after", { host }), signedIn],
      cautions: checked ? [] : [t("unregistered.nobody", { service, host })],
    };
  }
  return {
    claims: [
      t("unregistered.says.text", { host }),
      ...(name === undefined ? [] : [t("unregistered.named", { name })]),
      ...schemeText(t, scheme),
    ],
    asides: [...asides, signedIn],
    cautions: [t("unregistered.started"), ...(checked ? [] : [t("unregistered.nobody.device", { service })])],
  };
}

const schemeText = (t: Translator, scheme: string | undefined): readonly string[] =>
  scheme === undefined ? [] : [t("unregistered.scheme", { scheme })];

/** The variables of `consent-unregistered.ejs`. */
export function unregisteredLocals(
  t: Translator,
  client: NonNullable<SignInClient["unregistered"]>,
  { signIn, apis = [] }: { readonly signIn: RunningSignIn; readonly apis: StepDescription["apis"] },
): Locals {
  const { host, path = "", name, scheme } = client;
  const isHost = isProven(client);
  const [before = "", after = ""] = namedText(t, client, MARK).split(MARK);
  const { asides, cautions } = unregisteredTexts(t, client, signIn);
  return {
    client: "",
    clientLogo: "",
    marked: isHost ? host : "",
    lead: "",
    claim: {
      says: isHost ? "" : t("unregistered.says"),
      host,
      path,
      named: name === undefined ? "" : { before, name, after },
      notes: isHost ? [] : [...schemeText(t, scheme), t("unregistered.unchecked")],
    },
    apis: apis.map(({ name: api, scopes }) => ({
      heading: t("unregistered.api", { api }),
      scopes: scopes.map(({ label }) => label),
    })),
    asides,
    cautions,
  };
}
