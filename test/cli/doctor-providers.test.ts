/** `doctor` asks each provider, explains a typing error in each setting, and shows the addresses to register. */
import { describe, expect, it } from "@jest/globals";
import { createTestProvider } from "../../testing/test-provider.ts";
import { doctor, type Line, open, write } from "./doctor-stage.ts";

const BASE = "http://127.0.0.1:39996";
const ADDRESSES = [`${BASE}/providers/corp/callback`, `${BASE}/openid/providers/corp/callback`] as const;

/** What is found of a provider. */
async function found(
  changes: object = {},
  redirect_uris: readonly string[] = ADDRESSES,
): Promise<readonly Pick<Line, "level" | "what" | "fix">[]> {
  const provider = await createTestProvider({ redirect_uris });
  open.push(provider);
  const file = write({
    deployments: { oauth2: { url: BASE }, openid: { url: `${BASE}/openid` } },
    storage: "sqlite::memory:",
    providers: { corp: { ...provider.settings, ...changes } },
  });
  const { lines, err } = await doctor(["--config", file]);
  expect(err + JSON.stringify(lines)).not.toContain(provider.client_secret);
  return lines.filter(({ check }) => check === "providers");
}

const NOTE = expect.objectContaining({
  level: "note",
  what: `The provider corp sends people back to ${ADDRESSES.join(" and ")}.`,
});

describe("doctor, of a provider", () => {
  it("shows the addresses to register, and nothing else if all is right [D-PROV-16]", async () => {
    expect(await found()).toEqual([NOTE]);
  });

  it.each<[string, object, readonly string[], RegExp, RegExp]>([
    [
      "the issuer",
      { issuer: "https://no-such-host.invalid" },
      ADDRESSES,
      /^The host of .* is not known/u,
      /spelling of config\.providers\.corp\.issuer/u,
    ],
    [
      "the port of the issuer",
      { issuer: "http://localhost:9" },
      ADDRESSES,
      /can't be reached at http:\/\/localhost:9\//u,
      /config\.providers\.corp\.issuer/u,
    ],
    ["the client", { client_id: "sing-in" }, ADDRESSES, /does not accept client_id and/u, /Compare both/u],
    ["its secret", { client_secret: "s3cret" }, ADDRESSES, /does not accept client_id and/u, /Compare both/u],
    [
      "a redirect address",
      {},
      [ADDRESSES[0], `${ADDRESSES[1]}/`],
      /does not accept the redirect address http:\/\/127\.0\.0\.1:39996\/openid\/providers\/corp\/callback/u,
      /exactly this address/u,
    ],
  ])("explains a typing error in %s [D-PROV-16]", async (_what, changes, registered, what, fix) => {
    expect(await found(changes, registered)).toEqual([
      expect.objectContaining({
        level: "problem",
        what: expect.stringMatching(what),
        fix: expect.stringMatching(fix),
      }),
      NOTE,
    ]);
  });
});
