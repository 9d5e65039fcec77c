/** What the pages of clients add to their rows: the four kinds as cards, and the settings that an application needs. */
import { CLIENT_ROWS, hasSetting } from "../../accounts/clients/client-settings.ts";
import { clients } from "../../accounts/operations/clients.ts";
import type { AnyRow } from "../../accounts/operations/operation.ts";
import { endpointsOf } from "../../config/deployments.ts";
import { CLIENT_KINDS } from "../../core/events.ts";
import type { Translator } from "../../core/texts.ts";
import type { Look } from "./derived/pages.ts";
import { fieldsOf } from "./derived/fields.ts";
import type { ConsoleRequest } from "./request.ts";
import { deploymentOf } from "./sign-in.ts";

/** The members that everybody fills in, by the question that they answer. The others fold away. */
const QUESTIONS: Readonly<Record<string, string>> = {
  service: "whose",
  client_id: "whose",
  name: "whose",
  redirect_uris: "where",
  native: "where",
  jwks: "proof",
};

const questionOf = (name: string): string => QUESTIONS[name.split(".")[0] ?? name] ?? "more";

/** The kinds that have a member. */
const kindsOf = (member: string): string => {
  const kinds = CLIENT_KINDS.filter((kind) => hasSetting(CLIENT_ROWS, kind, member));
  // Only clients that prove who they are have keys.
  const having = member === "jwks" ? kinds.filter((kind) => CLIENT_ROWS.kinds[kind].confidential) : kinds;
  return having.length === CLIENT_KINDS.length ? "" : having.join(" ");
};

const DAY_SECONDS = 86_400;

/** How long the old secrets can work, in seconds. */
const KEEP_OLD = [
  ["3600", "hour"],
  ["86400", "day"],
  ["604800", "week"],
] as const;

const { rows } = clients;

export const CLIENTS: Look = {
  columns: ["name", "client_id", "kind", "service", "disabled"],
  acting: {
    async register({ t, configuration }) {
      return {
        view: "console-register",
        // The page makes a secret: a chosen one would travel once more.
        without: ["client_secret", "kind"],
        kindsOf,
        leaves: (form) => ["client_secret", ...foreignMembers(t, rows.register, form.get("kind") ?? "")],
        locals: {
          kinds: CLIENT_KINDS.map((kind) => ({
            kind,
            label: t(`admin.choice.kind.${kind}`),
            text: t(`admin.kind.${kind}`),
            gets: t(`admin.kind.${kind}.gets`),
          })),
          command: COMMAND,
          settings: settingsOf(configuration),
        },
        arrange(fields, filled) {
          const asked = (question: string) => fields.filter(({ name }) => questionOf(name) === question);
          const more = asked("more");
          return {
            chosenKind: filled?.get("kind") ?? "",
            questions: [
              { name: "whose", kinds: "", fields: asked("whose") },
              { name: "where", kinds: kindsOf("redirect_uris"), fields: asked("where") },
              { name: "proof", kinds: kindsOf("jwks"), fields: asked("proof") },
            ],
            more,
            moreIsOpen: more.some(({ name }) => (filled?.get(name) ?? "") !== ""),
          };
        },
      };
    },
    async update(request) {
      const { perform, params, t } = request;
      const { result } = await perform("clients", "find", { target: params, input: {} });
      const { kind = "" } = (result ?? {}) as { readonly kind?: string };
      const foreign = foreignMembers(t, rows.update, kind);
      // A new secret is another operation, which can keep the old ones for a while.
      const left = [...foreign, "client_secret"];
      return { without: left, leaves: () => left };
    },
    async rotateSecret({ t, configuration }) {
      const choices = KEEP_OLD.map(([value, key]) => ({ value, label: t(`admin.keep.${key}`) }));
      return {
        options: { keepOldFor: choices },
        record: { keepOldFor: DAY_SECONDS },
        locals: { settings: settingsOf(configuration), empty: t("admin.keep.none") },
      };
    },
  },
};

const COMMAND = [
  "sign-in-service clients register \\",
  "  --client-id ID --name NAME --service KEY \\",
  "  --redirect-uri https://app.example.com/callback",
].join("\n");

/** The members that clients of a kind don't have. */
const foreignMembers = (t: Translator, row: AnyRow, kind: string): readonly string[] =>
  fieldsOf(t, row, "", { kindsOf }).flatMap(({ name, kinds = "" }) =>
    kinds === "" || kinds.split(" ").includes(kind) ? [] : [name],
  );

/** What an application has to know of the service. */
function settingsOf(configuration: ConsoleRequest["configuration"]) {
  const deployment = deploymentOf(configuration);
  const named = new Map(endpointsOf(deployment).map(({ name, path }) => [name, deployment.url + path]));
  return [
    ...(deployment.kind === "openid" ? [{ label: "issuer", value: deployment.url }] : []),
    { label: "authorization_endpoint", value: named.get("authorize") ?? "" },
    { label: "token_endpoint", value: named.get("token") ?? "" },
  ];
}
