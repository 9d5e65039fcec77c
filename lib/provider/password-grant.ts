/** The documented password grant (RFC 6749 section 4.3), for clients that are registered for it. */
import { errors, type Provider, type TokenEndpointGrantContext } from "oidc-provider";
import type { UnitsOfWork } from "../../adapters/oidc/unit-of-work.ts";
import type { AuditCollector } from "../audit/collector.ts";
import { type Clock, seconds } from "../clock.ts";
import type { AccountRecord } from "../directory/directory.ts";
import type { AuditEvent } from "../audit/audit-event.ts";
import type { AccountInternals, Authenticated } from "../domain/account.ts";
import { currentGenerations, oidcAccount } from "./account.ts";
import { type AttemptLimits, noteLimited } from "./attempt-limits.ts";
import { ACR_PASSWORD, AMR_PASSWORD, effectiveScope } from "./claims.ts";
import { clientRecord } from "./clients.ts";
import { newGrant } from "./grant.ts";
import type { Guessing } from "./guessing.ts";
import { callerOf, requestState } from "./request.ts";

interface Parameters {
  readonly username?: string;
  readonly password?: string;
  readonly scope?: string;
}

type Context = TokenEndpointGrantContext<Parameters>;

/** The same error for a wrong password, an unknown user and an account without a password. */
const REFUSED = "the username or the password is wrong";
const LIMITED = "too many failed attempts";

export class PasswordGrant {
  readonly #accounts: AccountInternals;
  readonly #limits: AttemptLimits;
  readonly #guessing: Guessing;
  readonly #audit: Pick<AuditCollector, "note" | "noteRefusal">;
  readonly #units: UnitsOfWork;
  readonly #clock: Clock;

  constructor(
    accounts: AccountInternals,
    limits: AttemptLimits,
    guessing: Guessing,
    audit: Pick<AuditCollector, "note" | "noteRefusal">,
    units: UnitsOfWork,
    clock: Clock,
  ) {
    this.#accounts = accounts;
    this.#limits = limits;
    this.#guessing = guessing;
    this.#audit = audit;
    this.#units = units;
    this.#clock = clock;
  }

  /** Clients also need `password` in their `grant_types`. */
  register(provider: Provider): void {
    provider.registerGrantType<Parameters>("password", (ctx) => this.#issue(ctx, provider), [
      "username",
      "password",
      "scope",
    ]);
  }

  async #authenticate(ctx: Context): Promise<AccountRecord> {
    const { username, password } = ctx.oidc.params;
    if (username === undefined) throw new errors.InvalidRequest("username is missing");
    if (password === undefined) throw new errors.InvalidRequest("password is missing");
    const { clientId } = ctx.oidc.client;
    const event = { ...callerOf(ctx, { kind: "client", id: clientId }), action: "password_grant" } as const;
    const attempt = await this.#limits.passwordGrant({ name: username, client: clientId });
    if (!attempt.allowed) {
      // The account is not looked up: the time that takes would tell whether it exists.
      noteLimited(this.#audit, event, attempt);
      requestState(ctx).retryAfter = attempt.retryAfter;
      throw new errors.InvalidGrant(LIMITED);
    }
    const tried = await this.#compare(username, password, event).catch(async (fault: unknown) => {
      await attempt.withdraw();
      throw fault;
    });
    if ("retryAfter" in tried) {
      // Not a guess, because the password was not compared.
      await attempt.withdraw();
      requestState(ctx).retryAfter = tried.retryAfter;
      throw new errors.InvalidGrant(LIMITED);
    }
    const { refusal, record } = tried;
    const subject = record && { subject: record.sub };
    if (refusal !== undefined || record === undefined) {
      this.#audit.note({ ...event, ...subject, outcome: "failure", reason: refusal ?? "credentials" });
      throw new errors.InvalidGrant(REFUSED);
    }
    await attempt.succeed();
    this.#units.current()?.whenCommitted(() => this.#audit.note({ ...event, ...subject }));
    return record;
  }

  /** Compares the password, unless guessing goes on at this account and its limit is used up. */
  async #compare(
    username: string,
    password: string,
    event: AuditEvent,
  ): Promise<Authenticated | { readonly retryAfter: number }> {
    const account = await this.#accounts.recordByLogin(username);
    const tries = await this.#guessing.before("password_grant", username, account);
    const further = tries.limited === undefined ? undefined : await this.#limits.guessedGrant(tries.limited);
    if (further?.allowed === false) {
      noteLimited(this.#audit, event, further);
      return { retryAfter: further.retryAfter };
    }
    const outcome = await this.#accounts
      .authenticateRecord(account, password)
      .catch(async (fault: unknown) => {
        await further?.withdraw();
        throw fault;
      });
    if (!outcome.ok) await tries.failed();
    else await Promise.all([tries.succeeded(), further?.succeed()]);
    return outcome;
  }

  async #issue(ctx: Context, provider: Provider): Promise<void> {
    const record = await this.#authenticate(ctx);
    const { client } = ctx.oidc;
    const clientEntry = clientRecord(client);
    if (clientEntry.service !== null) {
      const generations = currentGenerations(record, clientEntry);
      const expected = { serviceGeneration: generations.service, tokensGeneration: generations.tokens };
      const caller = callerOf(ctx, { kind: "client", id: client.clientId });
      await this.#accounts.assignAtSignIn(record.sub, clientEntry.service, expected, caller);
    }
    const account = oidcAccount(record);
    ctx.oidc.entity("Account", account);
    const scope = effectiveScope(ctx.oidc.params.scope, requestState(ctx).deployment.kind);
    const grant = newGrant(provider, account, clientEntry);
    grant.addOIDCScope(scope);
    const grantId = await grant.save();
    ctx.oidc.entity("Grant", grant);

    const properties = { accountId: record.sub, client, grantId, gty: "password", scope };
    const accessToken = new provider.AccessToken(properties);
    ctx.oidc.entity("AccessToken", accessToken);
    const refreshToken = new provider.RefreshToken({
      ...properties,
      rotations: 0,
      authTime: seconds(this.#clock),
      acr: ACR_PASSWORD,
      amr: [...AMR_PASSWORD],
    });
    ctx.oidc.entity("RefreshToken", refreshToken);
    ctx.body = {
      access_token: await accessToken.save(),
      expires_in: accessToken.expiration,
      token_type: accessToken.tokenType,
      refresh_token: await refreshToken.save(),
      ...(scope.split(" ").includes("openid") ? { id_token: await idToken(ctx, provider) } : {}),
    };
  }
}

/** OpenID Connect Core 1.0 section 2. oidc-provider does not export its own function for this to custom grants. */
async function idToken(ctx: Context, provider: Provider): Promise<string> {
  const { account } = ctx.oidc;
  const claims = await account?.claims("id_token", "openid", {}, []);
  const token = new provider.IdToken(
    { ...claims, sub: account?.accountId ?? "", acr: ACR_PASSWORD, amr: [...AMR_PASSWORD] },
    { ctx },
  );
  // These members select the claims of the token; the types of oidc-provider leave them out.
  Object.assign(token, { scope: "openid", mask: {}, rejected: [] });
  return token.issue({ use: "idtoken" });
}
