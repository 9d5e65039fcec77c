/** Composes administration over HTTP: who asks, what may be done, and the surfaces. */
import { createHourlyLimits } from "../administration/limits.ts";
import { createAdministration, type Administration } from "../administration/middleware.ts";
import { openApiDocument } from "../administration/open-api.ts";
import type { ConsoleOperators } from "../administration/operators.ts";
import { createPerform } from "../administration/perform.ts";
import { createRest } from "../administration/rest/rest.ts";
import { consoleSurface } from "../administration/console/console.ts";
import type { Calls } from "../administration/tables.ts";
import type { AdministrationTokens } from "../administration/tokens.ts";
import type { HandledRequest } from "../compat/request-log.ts";
import type { Health } from "../records/health.ts";
import type { Services } from "./services.ts";

export function createServiceAdministration(
  services: Services,
  {
    calls,
    tokens,
    operators,
    health,
    onRequest,
  }: {
    readonly calls: Calls;
    readonly tokens: AdministrationTokens;
    readonly operators: ConsoleOperators;
    readonly health: () => Promise<Health>;
    readonly onRequest: (request: HandledRequest) => void;
  },
): Administration {
  const hourly = createHourlyLimits(services);
  const perform = createPerform({ ...services, calls, hourly });
  const rest = createRest({ perform, findToken: (token) => tokens.find(token), openApi: openApiDocument });
  const console = consoleSurface({
    ...services,
    perform,
    hourly,
    tokensEnding: (seconds) => tokens.endingWithin(seconds),
    health,
    mayOpenConsole: (account) => operators.mayOpenConsole(account),
  });
  return createAdministration({ ...services, onRequest }, { rest, console });
}
