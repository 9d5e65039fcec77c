/** The e-mail address: a new one counts once the person shows that they read mail there. */
import { emailProblem, normaliseName } from "../../accounts/text-rules.ts";
import type { AddressChanges } from "../../accounts/people/address-changes.ts";
import type { Confirmations } from "../../accounts/people/confirmations.ts";
import type { AskedAt } from "../../accounts/people/requests.ts";
import type { DeviceCookies } from "../device-cookie.ts";
import type { Form } from "../forms.ts";
import type { LinkCookie } from "../link-cookie.ts";
import type { Pages } from "../pages.ts";
import type { PersonPage, PersonVisit } from "./person-pages.ts";
import type { EmailProblem } from "./views.ts";

const PATH = "/account/email";
const NEW_PATH = "/account/email/new";

export interface EmailPageParts {
  readonly pages: Pick<Pages, "accountEmail" | "accountNewEmail">;
  /** Missing without mail: then the address can't be changed here. */
  readonly addressChanges: AddressChanges | undefined;
  readonly confirmations: Pick<Confirmations, "findByLink">;
  /** The link in mail that this browser has followed. */
  readonly links: Pick<LinkCookie, "read" | "clear">;
  readonly devices: Pick<DeviceCookies, "has" | "read">;
}

/** None if the address can't be changed here. */
export function emailPages(parts: EmailPageParts): readonly PersonPage[] {
  const { addressChanges } = parts;
  return addressChanges === undefined
    ? []
    : [addressPage(parts, addressChanges), newAddressPage(parts, addressChanges)];
}

function askedAt({ devices }: EmailPageParts, { ctx, caller, locals }: PersonVisit): AskedAt {
  const { deployment, address } = ctx.state;
  return {
    deployment: deployment.kind,
    caller,
    address,
    locale: locals.locale,
    ...(devices.has(ctx) && { device: (account) => devices.read(ctx, account) }),
  };
}

/** The address, and a change that waits. A form sends `action`: `code` or `link` to confirm, `again`, or `cancel`. */
function addressPage(parts: EmailPageParts, changes: AddressChanges): PersonPage {
  const { pages, confirmations, links } = parts;

  /** The link that this browser has followed, if it confirms a change of this account. */
  async function linkOf({ ctx, person }: PersonVisit): Promise<string | undefined> {
    const link = links.read(ctx);
    const found = link === undefined ? undefined : await confirmations.findByLink(link);
    const isOurs = found?.purpose === "address-change" && found.subject === person.account.sub;
    return isOurs ? link : undefined;
  }

  async function shown(visit: PersonVisit, problem?: EmailProblem): Promise<void> {
    const { email, sub } = visit.person.account;
    const [pending, link] = await Promise.all([changes.pending(sub), linkOf(visit)]);
    const html = pages.accountEmail({
      ...visit.locals,
      email,
      isConfirmed: visit.person.account.email_verified,
      ...(pending !== undefined && { pending: { email: pending.email, hasLink: link !== undefined } }),
      ...(problem !== undefined && { problem }),
    });
    await visit.send(html, statusOf(problem), retryOf(problem));
  }

  async function confirm(visit: PersonVisit, form: Form): Promise<void> {
    const { sub } = visit.person.account;
    const link = form.get("action") === "link" ? await linkOf(visit) : undefined;
    const proof = link === undefined ? { code: form.get("code") ?? "" } : { link };
    if ("code" in proof && proof.code.trim() === "") return shown(visit, { reason: "noCode" });
    const result = await changes.confirm(sub, proof, askedAt(parts, visit));
    if (result.kind === "wrong") {
      const { triesLeft } = result;
      return shown(visit, triesLeft === 0 ? { reason: "noTries" } : { reason: "wrongCode", triesLeft });
    }
    links.clear(visit.ctx);
    return result.kind === "gone" ? shown(visit, { reason: "gone" }) : visit.done(PATH, "address");
  }

  return {
    path: PATH,
    show: (visit) => shown(visit),
    async submit(visit, form) {
      const { sub } = visit.person.account;
      const action = form.get("action");
      if (action === "cancel") {
        await changes.cancel(sub);
        return visit.done(PATH, "addressCancelled");
      }
      if (action !== "again") return confirm(visit, form);
      const pending = await changes.pending(sub);
      if (pending === undefined) return shown(visit, { reason: "gone" });
      const result = await changes.start(sub, pending.email, askedAt(parts, visit));
      if (result.kind === "limited")
        return shown(visit, { reason: "limited", retryAfter: result.retryAfter });
      return visit.done(PATH, "codeSent");
    },
  };
}

/** The form for a new address, after a recent sign-in. */
function newAddressPage(parts: EmailPageParts, changes: AddressChanges): PersonPage {
  const { pages } = parts;

  function shown({ locals, send }: PersonVisit, value: string, problem?: EmailProblem): Promise<void> {
    const html = pages.accountNewEmail({ ...locals, value, ...(problem !== undefined && { problem }) });
    return send(html, statusOf(problem), retryOf(problem));
  }

  return {
    path: NEW_PATH,
    needs: "recent sign-in",
    show: (visit) => shown(visit, ""),
    async submit(visit, form) {
      const { account } = visit.person;
      const email = (form.get("email") ?? "").trim();
      if (emailProblem(email) !== undefined) return shown(visit, email, { reason: "invalid" });
      if (normaliseName(email) === normaliseName(account.email) && account.email_verified)
        return shown(visit, email, { reason: "same" });
      const result = await changes.start(account.sub, email, askedAt(parts, visit));
      if (result.kind === "limited")
        return shown(visit, email, { reason: "limited", retryAfter: result.retryAfter });
      if (result.kind === "invalid") return shown(visit, email, { reason: "invalid" });
      return visit.done(PATH, "codeSent");
    },
  };
}

function statusOf(problem: EmailProblem | undefined): number {
  if (problem === undefined) return 200;
  return problem.reason === "limited" ? 429 : 400;
}

function retryOf(problem: EmailProblem | undefined): number | undefined {
  return problem?.reason === "limited" ? problem.retryAfter : undefined;
}
