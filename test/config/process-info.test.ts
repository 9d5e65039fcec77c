/** What tells the processes of a service apart. */
import { expect, it } from "@jest/globals";
import type { SignInServiceConfig } from "../../config/input.ts";
import { processInfo } from "../../config/process-info.ts";
import { readConfiguration } from "../../config/read.ts";

const base: SignInServiceConfig = { deployments: { oauth2: { url: "http://127.0.0.1:3000" } } };
/** The whole text, in place of its hash. */
const hashed = (changes: Partial<SignInServiceConfig>): string => {
  let text = "";
  const hash = (part: string): string => (text = part);
  processInfo(readConfiguration({ ...base, ...changes }), "server", { hash });
  return text;
};

it("says that two processes have one configuration, whatever their metrics ports are", () => {
  const token = "a-token-of-the-operator.0123456789";
  expect(hashed({ metrics: { port: 9090, token } })).toBe(
    hashed({ metrics: { port: 9091, host: "::1", token } }),
  );
  expect(hashed({ metrics: { token } })).not.toBe(hashed({ metrics: { token: `${token}.` } }));
  expect(hashed({ profile: "strict" })).not.toBe(hashed({}));
});
