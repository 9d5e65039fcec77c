/** A service with the console in a host application, and requests as raw text. */
import type { DeploymentKind } from "../../config/configuration.ts";
import { clientAt } from "../flows/clients.ts";
import { CALLBACK, NEWS, type RunningService, useService } from "../flows/running-service.ts";
import { WITH_CONSOLE } from "./account-samples.ts";
import { rawRequest, type RawAnswer, sendRaw } from "./raw.ts";

export interface ObservedService {
  readonly running: RunningService;
  readonly port: () => number;
  readonly raw: (
    method: string,
    target: string,
    headers?: Record<string, string>,
    body?: string,
  ) => Promise<RawAnswer>;
  /** Path and query of a valid authorization request. */
  readonly authorizePath: (kind: DeploymentKind) => string;
}

const PROVIDER = {
  issuer: "https://id.example.com",
  client_id: "c",
  client_secret: "secret",
  name: "Elsewhere",
} as const;

/** What the service leaves to the host application is a 404 with the header `X-Host`. */
export function useObserved(): ObservedService {
  const running = useService({
    config: { ...WITH_CONSOLE, providers: { "some-id": PROVIDER } },
    host: (application) =>
      void application.use(async (ctx, next) => {
        await next();
        if (ctx.status === 404 && !ctx.body) ctx.set("X-Host", "yes");
      }),
  });
  const port = (): number => Number(new URL(running.origin).port);
  return {
    running,
    port,
    raw: (method, target, headers = {}, body = "") =>
      sendRaw(port(), rawRequest(method, target, headers, body)),
    authorizePath: (kind) =>
      new URL(clientAt(running, kind, NEWS).authorizeUrl()).pathname +
      `?client_id=news&response_type=code&redirect_uri=${CALLBACK}`,
  };
}
