/** Tokens of machines, and introspection of a person's token by an API, compared with userinfo of the same service. */
import { join } from "node:path";
import { again, type LoadRequest } from "../load.ts";
import { type Measurement, perSecond, type Row } from "../result.ts";
import { type Effort, inTurns, WARM } from "../rounds.ts";
import { APIS, basic, CALLBACK, CLIENT, MACHINE } from "../servers/people.ts";
import { signIn } from "../session.ts";
import { startSide } from "../side.ts";

function post(target: string, fields: Readonly<Record<string, string>>, client = MACHINE): LoadRequest {
  return {
    method: "POST",
    target,
    headers: { "content-type": "application/x-www-form-urlencoded", authorization: basic(client) },
    body: new URLSearchParams(fields).toString(),
  };
}

/** An access token of the person. @param more further parameters of the authorization request. */
async function tokenOf(base: string, more: Readonly<Record<string, string>> = {}): Promise<string> {
  const query = { client_id: CLIENT.client_id, response_type: "code", redirect_uri: CALLBACK, ...more };
  const { code } = await signIn(`${base}/oauth2/authorize?${new URLSearchParams(query).toString()}`);
  const fields = { grant_type: "authorization_code", code, redirect_uri: CALLBACK };
  const { target, headers, body = "" } = post("/oauth2/token", fields, CLIENT);
  const response = await fetch(base + target, { method: "POST", headers, body });
  return ((await response.json()) as { readonly access_token: string }).access_token;
}

const credentials = (resource: string): LoadRequest =>
  post("/oauth2/token", { grant_type: "client_credentials", resource });

/** Runs the work on a service that signs JWTs for APIs with ES256. */
async function onService(
  folder: string,
  work: (base: string) => Promise<readonly Row[]>,
): Promise<readonly Row[]> {
  const side = await startSide("service", { options: { file: join(folder, "machine.db"), ecdsa: true } });
  try {
    return await work(side.ready["base"] ?? "");
  } finally {
    await side.stop();
  }
}

/** Repeats the requests in turn. @returns requests per second. */
function rates<Name extends string>(
  base: string,
  effort: Effort,
  requests: Readonly<Record<Name, LoadRequest>>,
): Promise<Record<Name, number>> {
  const sides = Object.entries<LoadRequest>(requests).map(
    ([name, request]) => [name, async () => (await again(base, request, effort)).perSecond] as const,
  );
  return inTurns(effort, Object.fromEntries(sides) as Record<Name, () => Promise<number>>, WARM);
}

export const machine: Measurement = {
  name: "machine",
  run: (effort, folder) =>
    onService(folder, async (base) => {
      const token = await tokenOf(base, { resource: APIS.opaque, scope: "read" });
      const found = await rates(base, effort, {
        opaque: credentials(APIS.opaque),
        jwt: credentials(APIS.jwt),
        introspection: post("/openid/oauth2/introspect", { token }),
        userinfo: {
          method: "GET",
          target: `/resources/userinfo?client_id=${CLIENT.client_id}`,
          headers: { authorization: `Bearer ${await tokenOf(base)}` },
        },
      });
      const against = "on one core";
      const { opaque, jwt, introspection, userinfo } = found;
      const issued = { against, unit: "/s" } as const;
      return [
        { work: "client credentials", ...issued, value: opaque, target: 5000, raw: perSecond(opaque) },
        { work: "client credentials, ES256", ...issued, value: jwt, target: 3000, raw: perSecond(jwt) },
        {
          work: "introspection by an API",
          against: "userinfo of the same service",
          value: introspection / userinfo,
          unit: "×",
          target: 0.8,
          raw: `${perSecond(introspection)} to ${perSecond(userinfo)}`,
        },
      ];
    }),
};
