/** A service with the console in a host application that notes what it should not see, and requests as raw text. */
import { expect } from "@jest/globals";
import type { DeploymentKind } from "../../config/configuration.ts";
import { relyingParty } from "../flows/relying-party.ts";
import { CALLBACK, NEWS, type RunningService, startService } from "../flows/running-service.ts";
import { WITH_CONSOLE } from "./account-samples.ts";
import { rawRequest, type RawAnswer, sendRaw } from "./raw.ts";

export interface ObservedService {
  readonly running: RunningService;
  readonly port: number;
  readonly raw: (
    method: string,
    target: string,
    headers?: Record<string, string>,
    body?: string,
  ) => Promise<RawAnswer>;
  /** Path and query of a valid authorization request. */
  readonly authorizePath: (kind: DeploymentKind) => string;
  /** Closes it. Neither the host application nor the log may have errors. */
  readonly close: () => Promise<void>;
}

/** What the service leaves to the host application is a 404 with the header `X-Host`. */
export async function startObserved(): Promise<ObservedService> {
  const defects: unknown[] = [];
  const running = await startService({
    config: WITH_CONSOLE,
    host(application) {
      application.on("error", (error: { code?: string }) => {
        // Koa reports connections that break before the request or after the response.
        if (!/^(?:HPE_|ECONNRESET)/.test(error.code ?? "")) defects.push(error);
      });
      application.use(async (ctx, next) => {
        await next();
        if (ctx.status === 404 && !ctx.body) ctx.set("X-Host", "yes");
      });
    },
  });
  const port = Number(new URL(running.origin).port);
  return {
    running,
    port,
    raw: (method, target, headers = {}, body = "") =>
      sendRaw(port, rawRequest(method, target, headers, body)),
    authorizePath: (kind) =>
      new URL(relyingParty(running, kind, NEWS).authorizeUrl()).pathname +
      `?client_id=news&response_type=code&redirect_uri=${CALLBACK}`,
    async close() {
      await running.close();
      expect(defects).toEqual([]);
      expect(running.log.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
    },
  };
}
