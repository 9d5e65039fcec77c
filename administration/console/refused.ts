/** Why a page is not what was asked for, in words: what the role lacks, a limit of the hour, what is gone, a storage that is silent. */
import { subProblem } from "../../accounts/text-rules.ts";
import { EndpointError } from "../../compat/errors.ts";
import { ERRORS, InvalidArgument, LimitReached, SignInError, StorageUnavailable } from "../../core/errors.ts";
import { refusalText } from "./derived/words.ts";
import { nameOf } from "./entries.ts";
import { timeText } from "./frame.ts";
import { type ConsoleRequest, type ConsoleView, RoleRequired } from "./request.ts";

/**
 * An error as a page of the console.
 * @param entry the entry of the page.
 * @throws everything else.
 */
export function refusedView(request: ConsoleRequest, entry: string | undefined, error: unknown): ConsoleView {
  const { t } = request;
  const lost = lostIn(request);
  const said = (key: string, status: number, text: string, more: Partial<ConsoleView> = {}): ConsoleView => ({
    view: "console-text",
    heading: t(`admin.refused.${key}`),
    status,
    locals: { texts: [text, ...lost], next: { href: "/", label: t("admin.home") } },
    ...more,
  });
  if (error instanceof StorageUnavailable) return unavailableView(request);
  if (error instanceof EndpointError) return said("form", error.status, t("admin.problem.form"));
  if (error instanceof InvalidArgument) return said("other", 422, t("admin.problem.invalid_argument"));
  if (!(error instanceof SignInError)) throw error;
  const { code } = error;
  if (code === "role_required") return said("role", 403, roleText(request, error));
  if (error instanceof LimitReached) {
    const { retryAfter } = error;
    return said("limit", 429, limitText(request, error), { retryAfter: Math.ceil(retryAfter) });
  }
  if (code !== "not_found") return said("other", ERRORS[code], refusalText(t, code, {}));
  const text = t(entry === "people" ? "admin.problem.noAccount" : "admin.problem.not_found");
  return said("gone", 404, text, {
    ...(request.opens("audit") && {
      locals: { texts: [text, ...lost], next: { href: auditOf(request, entry), label: nameOf(t, "audit") } },
    }),
  });
}

/** What a form sent is gone: nobody finds that out later. */
const lostIn = ({ t, ctx }: Pick<ConsoleRequest, "t" | "ctx">): readonly string[] =>
  ctx.method === "POST" ? [t("admin.refused.lost")] : [];

/** The storage does not answer. */
export function unavailableView(request: Pick<ConsoleRequest, "t" | "ctx" | "here">): ConsoleView {
  const { t, here } = request;
  const texts = [t("admin.problem.storage_unavailable"), ...lostIn(request)];
  return {
    view: "console-text",
    heading: t("admin.refused.storage"),
    status: 503,
    retryAfter: 60,
    locals: { texts, next: { href: here, label: t("admin.again") } },
  };
}

/** Who can, and who asks. */
function roleText({ t, operator }: ConsoleRequest, error: SignInError): string {
  const role = t(`admin.role.${operator.who.role}`);
  return error instanceof RoleRequired && error.needed !== "deliveries"
    ? t(`admin.refused.needs.${error.needed}`, { role })
    : t("admin.problem.role_required", { role });
}

/** What was counted in this hour, and when there is room again. */
function limitText({ t, now, zone }: ConsoleRequest, { counted, retryAfter }: LimitReached): string {
  if (counted === undefined) return t("admin.problem.limit_reached");
  const time = timeText(t.locale, now + retryAfter * 1000, zone);
  return t(`admin.limit.${counted.what}`, { most: counted.most, time });
}

/** What happened to an account that is gone is in the audit under its identifier. */
function auditOf({ params: [id = ""] }: ConsoleRequest, entry: string | undefined): string {
  const isAccount = entry === "people" && subProblem(id) === undefined;
  return isAccount ? `/audit?${new URLSearchParams({ account: id })}` : "/audit";
}
