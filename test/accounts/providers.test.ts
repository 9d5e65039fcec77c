/** Which provider an address belongs to, and which accounts sign in there only. */
import { describe, expect, it } from "@jest/globals";
import {
  isProvided,
  onlyProvider,
  providerForDomain,
  type ProviderSignIn,
} from "../../accounts/providers.ts";
import { readConfiguration } from "../../config/read.ts";
import { SMALLEST } from "../config/refusals.ts";

const CLIENT = { client_id: "a", client_secret: "s3cret" };
const OPERATOR = "0a0a0a0a-0000-4000-8000-000000000000";
const configuration = readConfiguration({
  ...SMALLEST,
  operators: { [OPERATOR]: "administrator" },
  providers: {
    google: { ...CLIENT, domains: ["open.example", "corp"] },
    corp: {
      ...CLIENT,
      issuer: "https://login.corp.example",
      name: "Corp",
      domains: ["corp.example", "xn--bcher-kva.example"],
      only: true,
    },
  },
});

describe("the provider of a domain", () => {
  it.each<[string, string | undefined]>([
    ["ann@corp.example", "corp"],
    [" Ann@CORP.Example ", "corp"],
    ["ann@ｃｏｒｐ.example", "corp"],
    ["ann@bücher.example", "corp"],
    ["ann@xn--bcher-kva.example", "corp"],
    ["ann@open.example", "google"],
    ["ann@corp", "google"],
    ["ann@sub.corp.example", undefined],
    ["ann@corp.example.evil.example", undefined],
    ["ann@evilcorp.example", undefined],
    ["ann@corp.example@evil.example", undefined],
    ["corp.example", undefined],
    ["@", undefined],
    ["", undefined],
    ["ann@__proto__", undefined],
    [`${"a".repeat(300)}@corp.example`, undefined],
    [`ann@corp.example${" ".repeat(20_000)}`, undefined],
  ])("of %j is %s [D-PROV-7]", (typed, key) => {
    expect(providerForDomain(configuration.providers, typed)?.key).toBe(key);
  });

  it.each<[object, string | undefined]>([
    [{}, "corp"],
    [{ email: "Ann@Corp.example" }, "corp"],
    [{ email: "ann@open.example" }, undefined],
    [{ email: "ann@else.example" }, undefined],
    [{ email_verified: false }, undefined],
    [{ sub: OPERATOR }, undefined],
  ])("is the only way in for %j: %s [D-PROV-8]", (account, key) => {
    const ann = { sub: "1", email: "ann@corp.example", email_verified: true };
    expect(onlyProvider(configuration, { ...ann, ...account })?.key).toBe(key);
  });
});

describe("a sign-in at the only provider", () => {
  const NOW = 1_767_225_600;
  const rules = { ...configuration, clock: { now: () => NOW * 1000 } };
  const ann = { sub: "1", email: "ann@corp.example", email_verified: true };
  const last = { sub: "1", provider: "corp", at: NOW };

  it.each<[object, Partial<ProviderSignIn> | undefined, boolean]>([
    [{}, {}, true],
    [{}, { at: NOW - 86_399 }, true],
    [{}, { at: NOW - 86_400 }, false],
    [{}, { provider: "google" }, false],
    [{}, { sub: "2" }, false],
    [{}, undefined, false],
    [{ email: "ann@open.example" }, undefined, true],
    [{ email_verified: false }, undefined, true],
    [{ sub: OPERATOR }, undefined, true],
  ])("of %j with %j counts: %s [D-PROV-14]", (account, sign, counts) => {
    expect(isProvided(rules, { ...ann, ...account }, sign && { ...last, ...sign })).toBe(counts);
  });
});
