/** The key `clients`: which clients that nobody has registered may ask (OAuth Client ID Metadata Document). */
import { z } from "zod";
import { isOrigin } from "./admin.ts";
import { described, list, section, text } from "./documented-schema.ts";
import type { Problem } from "./problems.ts";
import { isLoopback, urlProblem } from "./value-forms.ts";

/** Longer addresses of documents are unknown. */
export const MAX_DOCUMENT_ADDRESS = 512;

/**
 * What is wrong with the address of a document, which is a `client_id`. Only one spelling of an address is accepted, so that comparing
 * characters is enough.
 */
export function documentAddressProblem(address: string): string | undefined {
  if (address.length > MAX_DOCUMENT_ADDRESS) return `must have at most ${MAX_DOCUMENT_ADDRESS} characters`;
  const problem = urlProblem(address);
  if (problem !== undefined) return problem;
  const url = new URL(address);
  if (url.protocol !== "https:") return "must be https";
  if (address.includes("?")) return "must not have a query";
  if (url.pathname === "/") return "must have a path";
  if (url.hostname.includes("*")) return "must name one host";
  if (url.hostname.endsWith(".")) return "must not end its host with a dot";
  return url.href === address ? undefined : "must be written as browsers write it, without dot segments";
}

const ENTRY_FORM =
  "an origin such as `https://vscode.dev`, or the address of a document such as `https://claude.ai/oauth/client.json`";

/** Whether it is an origin, or the address of a document. */
export const isDocumentEntry = (value: string): boolean =>
  (value.startsWith("https:") && isOrigin(value) && !value.includes("*")) ||
  documentAddressProblem(value) === undefined;

const MAX_ENTRIES = 1_000;
const MAX_SCHEMES = 100;

/**
 * Schemes that a browser, an operating system or a well-known program acts on: an answer sent there could run or open something.
 * All that begin with `ms-` and `x-apple` are too.
 */
const ACTED_ON: ReadonlySet<string> = new Set(
  [
    "http https ws wss ftp ftps sftp file data blob filesystem javascript vbscript livescript jscript mocha about res jar",
    "view-source view-cache chrome chrome-extension chrome-untrusted devtools edge brave opera moz-extension moz-icon",
    "resource safari-extension safari-web-extension webkit wyciwyg cid mid urn tag feed pcast webcal intent android-app",
    "market itms itms-apps itms-appss itms-services app-settings prefs shortcuts workflow applescript macappstore help",
    "mailto tel sms mms smsto facetime facetime-audio callto sip sips skype xmpp irc ircs im maps geo magnet news nntp",
    "gopher wais telnet rlogin tn3270 ssh rdp vnc smb cifs nfs afp dav davs webdav webdavs ldap ldaps dict imap imaps",
    "pop pops smtp smtps rtsp rtsps rtmp mmsh shell search search-ms hcp mk its mhtml local ie.http windowsupdate",
    "onenote git svn docker vscode-insiders-shell registry powershell cmd calculator zoommtg steam slack-shell",
    "bitcoin ethereum openid did ipfs ipns web+ap admin wifi otpauth otpauth-migration fido passkey",
  ].flatMap((line) => line.split(" ")),
);

const isActedOn = (scheme: string): boolean => ACTED_ON.has(scheme) || /^(?:ms-|x-apple|web\+)/u.test(scheme);

const metadataDocuments = section({
  /**
   * The origins and addresses whose documents are accepted. `"any"`: every public https address. Don't allow an origin where people
   * can upload files.
   */
  allow: described(
    z.union([
      z.literal("any"),
      list(text(MAX_DOCUMENT_ADDRESS, isDocumentEntry, ENTRY_FORM), 1).refine(
        (all) => all.length <= MAX_ENTRIES,
      ),
    ]),
    { form: `\`"any"\`, or a list of 1 to ${MAX_ENTRIES} different entries, each ${ENTRY_FORM}` },
  ),
  /**
   * Schemes of applications to which answers may go, such as `cursor`. Any application on a device can claim one. Default `[]`.
   */
  schemes: described(
    list(
      text(64, (value) => /^[a-z][a-z0-9+.-]*$/u.test(value), "a scheme in lower case, without its colon"),
      0,
    )
      .refine((all) => all.length <= MAX_SCHEMES)
      .default([]),
    { form: `a list of at most ${MAX_SCHEMES} schemes in lower case, without their colons` },
  ),
});

/** The settings of `clients.metadataDocuments`. */
export interface DocumentSettings extends z.output<typeof metadataDocuments> {}

/** The hosts that metrics may name: those that the configuration names, and no other. */
export const documentHosts = (settings: DocumentSettings | undefined): readonly string[] =>
  settings === undefined || settings.allow === "any"
    ? []
    : [...new Set(settings.allow.map((each) => new URL(each).host))];

const settings = section({
  /**
   * Clients that describe themselves in a document at their `client_id`, an https address, without being registered. They reach only APIs
   * that have `unregistered` scopes. Needs the `openid` deployment. Default: off.
   */
  metadataDocuments: described(metadataDocuments.exactOptional(), {
    form: "an object with `allow` and `schemes`",
    otherwise: "off",
  }),
});

/** The settings of `clients`. */
export interface ClientsSettings extends z.output<typeof settings> {}
/** The same as a configuration has them. */
export interface ClientsInput extends z.input<typeof settings> {}
/** Its type has a name, as that of `interactions`. */
export const clients: z.ZodType<ClientsSettings, ClientsInput> = settings;

/** What is wrong with `clients`, beyond the form of each key. */
export function clientsProblems(
  { metadataDocuments: documents }: ClientsSettings,
  hasIssuer: boolean,
): readonly Problem[] {
  if (documents === undefined) return [];
  const path = ["clients", "metadataDocuments"];
  const schemes = documents.schemes.flatMap((scheme, index): readonly Problem[] =>
    isActedOn(scheme)
      ? [
          {
            path: [...path, "schemes", index],
            text: "must not be a scheme that a browser or a system acts on itself",
          },
        ]
      : [],
  );
  return hasIssuer ? schemes : [{ path, text: "needs config.deployments.openid" }, ...schemes];
}

/** Whether only a configuration that names this origin allows it: another port, an IP address, a host without a dot. */
export function needsName(origin: string): boolean {
  const { hostname, port } = new URL(origin);
  return port !== "" || !hostname.includes(".") || isLoopback(hostname) || /^\[|^[\d.]+$/u.test(hostname);
}
