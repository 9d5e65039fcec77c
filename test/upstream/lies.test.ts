/** What a provider that lies, fails or is slow brings about. */
import { afterEach, describe, expect, it } from "@jest/globals";
import type { ProviderEndpoint, ProviderLie } from "../../testing/index.ts";
import { createStage, type Stage } from "./stage.ts";

const stages: Stage[] = [];
afterEach(async () => {
  for (const stage of stages.splice(0)) await stage.close();
});

async function opened(...settings: Parameters<typeof createStage>): Promise<Stage> {
  const stage = await createStage(...settings);
  stages.push(stage);
  return stage;
}

type Reason = "cancelled" | "slow" | "refused" | "lied";

/** Each lie, where it is told, and what it is called. */
const TOLD: readonly (readonly [lie: ProviderLie, reason: Reason, at: ProviderEndpoint])[] = [
  ["wrong key", "lied", "token"],
  ["unknown key", "lied", "token"],
  ["no signature", "lied", "token"],
  ["shared secret", "lied", "token"],
  ["weak algorithms", "lied", "token"],
  ["other audience", "lied", "token"],
  ["more audiences", "lied", "token"],
  ["other issuer", "lied", "token"],
  ["other issuer in discovery", "lied", "token"],
  ["wrong nonce", "lied", "token"],
  ["no nonce", "lied", "token"],
  ["expired", "lied", "token"],
  ["clock behind", "lied", "token"],
  ["clock ahead", "lied", "token"],
  ["no iss", "lied", "token"],
  ["wrong iss", "lied", "token"],
  ["wrong state", "lied", "token"],
  ["two codes", "lied", "token"],
  ["server error", "refused", "token"],
  ["other subject", "lied", "token"],
  ["long subject", "lied", "token"],
  ["subject is a number", "lied", "token"],
  ["no ID token", "lied", "token"],
  ["inner endpoint", "lied", "token"],
  ...(["discovery", "token", "keys", "userinfo"] as const).flatMap(
    (at): (readonly [ProviderLie, Reason, ProviderEndpoint])[] => [
      ["silence", "slow", at],
      ["endless", "slow", at],
      ["hang up", "slow", at],
      ["inner redirect", "lied", at],
      ["100 MB", "lied", at],
      ["broken JSON", "lied", at],
      ["deep JSON", "lied", at],
      ["a page", "lied", at],
      ["status 500", "refused", at],
      ["wrong client", "refused", at],
    ],
  ),
];

describe("a provider that lies brings nobody in, and is a fault with a reason [D-PROV-21]", () => {
  it.each(TOLD)("%s: %s (%s)", async (lie, reason, at) => {
    const stage = await opened({
      options: { userinfoOnly: ["email"] },
      ...(["silence", "endless"].includes(lie) && { timeoutMs: 500 }),
    });
    const { provider, lines, events } = stage;
    provider.lies.set(lie, at);
    const fault = await stage.travel().then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(fault).toMatchObject({ name: "UpstreamFault", code: "provider_failed", reason });
    expect(events.at(-1)).toEqual(["failed", { provider: "test", reason, seconds: expect.any(Number) }]);
    const told = `${JSON.stringify(lines)} ${String((fault as Error).stack)} ${JSON.stringify(fault)}`;
    const { parameters = {}, authorization = "" } =
      provider.requests.find(({ endpoint }) => endpoint === "token") ?? {};
    for (const secret of ["secret", provider.client_secret, authorization, ...Object.values(parameters)])
      if (secret.length > 5 && secret !== "authorization_code") expect(told).not.toContain(secret);
    expect((fault as Error).cause).toBeUndefined();
    provider.lies.clear();
    // A discovery document is kept, also one that names a wrong endpoint. The others wait for no more than half a second.
    if (!["weak algorithms", "inner endpoint", "silence", "endless"].includes(lie))
      await expect(stage.travel()).resolves.toMatchObject({ subject: "ada" });
  });
});
