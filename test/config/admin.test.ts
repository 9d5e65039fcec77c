/** Where administration may be: the rules of `admin`. */
import { describe, expect, it } from "@jest/globals";
import { readConfiguration } from "../../config/read.ts";
import { PRODUCTION, problemsIn, problemsWith, SMALLEST } from "./refusals.ts";

const URL_FORM =
  "config.admin.url: must be an origin, such as `https://admin.example.com`: https, or http on loopback, without a path";
const OTHER_HOST =
  "config.admin.url: must have another host name than config.deployments.oauth2.url: cookies know no port";
const NEEDS = "which needs config.admin.tls or config.admin.proxy";
const OPEN = `config.admin.host: is not loopback, ${NEEDS}`;
const TLS = { cert: "admin.pem", key: "admin.key" };

const inProduction = (admin: object, more: object = {}): readonly string[] =>
  problemsIn({ ...PRODUCTION, ...more, admin });

describe("the address of administration", () => {
  it.each([
    "https://admin.example/",
    "https://admin.example/console",
    "https://admin.example?",
    "https://ADMIN.example",
    "https://admin.example:443",
    "https://admin.example.",
    "https://me@admin.example",
    "http://admin.example",
    "http://127.0.0.1:80",
    "ftp://admin.example",
    "admin.example",
    "https://",
  ])("is an origin as browsers write it, unlike %s [D-ADM-82]", (url) => {
    expect(inProduction({ url })).toEqual([URL_FORM]);
  });

  it.each<[string, object, readonly string[]]>([
    ["https://admin.example", {}, []],
    ["http://localhost:9000", {}, []],
    ["http://[::1]:9000", {}, []],
    [
      "https://login.example",
      {},
      ["config.admin.url: must not be the origin of config.deployments.oauth2.url"],
    ],
    ["https://login.example:8443", {}, [OTHER_HOST]],
    ["https://admin.login.example", {}, []],
    [
      "https://admin.example.org",
      {
        cookies: { domain: "example.org" },
        deployments: { oauth2: { url: "https://login.example.org" } },
      },
      ["config.admin.url: must not be below config.cookies.domain: it would get the cookies of sign-ins"],
    ],
    [
      "https://admin.example.net",
      {
        cookies: { domain: "example.org" },
        deployments: { oauth2: { url: "https://login.example.org" } },
      },
      [],
    ],
  ])(
    "is no deployment's in production, and no cookie reaches it: %s %j [D-ADM-82]",
    (url, more, problems) => {
      expect(inProduction({ url }, more)).toEqual(problems);
    },
  );

  it("may have another port of a deployment's host on loopback, but not its origin [D-ADM-82]", () => {
    expect(problemsWith({ admin: { url: "http://127.0.0.1:3001" } })).toEqual([]);
    expect(problemsWith({ admin: { url: "http://127.0.0.1:3000" } })).toEqual([
      "config.admin.url: must not be the origin of config.deployments.oauth2.url",
    ]);
  });

  it.each<[object, readonly string[]]>([
    [{ port: 9000, host: "0.0.0.0" }, [OPEN]],
    [{ port: 9000, host: "::" }, [OPEN]],
    [{ port: 9000, host: "10.0.0.1" }, [OPEN]],
    [{ port: 9000, host: "admin.example" }, [OPEN]],
    [{ port: 9000, host: "0.0.0.0", proxy: false }, [OPEN]],
    [{ port: 9000, host: "0.0.0.0", proxy: true }, []],
    [{ port: 9000, host: "0.0.0.0", proxy: ["10.0.0.0/8"] }, []],
    [{ port: 9000, host: "0.0.0.0", tls: TLS }, []],
    [{ port: 9000 }, [`config.admin.url: is https, ${NEEDS}`]],
    [{ port: 9000, host: "::1", proxy: 1 }, []],
    // Nothing listens there.
    [{ host: "0.0.0.0" }, []],
  ])("is reached by TLS or a proxy, unless it is on loopback: %j [D-ADM-83]", (admin, problems) => {
    expect(inProduction({ url: "https://admin.example", ...admin })).toEqual(problems);
  });

  it("has a certificate only with https", () => {
    expect(problemsWith({ admin: { url: "http://127.0.0.1:9000", port: 9000, tls: TLS } })).toEqual([
      "config.admin.tls: needs an https address in config.admin.url",
    ]);
  });

  it.each<[string, object, string]>([
    ["https://admin.example", {}, "production"],
    ["http://localhost:9000", {}, "development"],
    ["http://localhost:9000", { environment: "staging" }, "staging"],
    ["https://admin.example", { environment: "demo" }, "demo"],
  ])("says what the installation is for: %s %j [D-ADM-84]", (url, more, environment) => {
    const { admin } = readConfiguration({ ...PRODUCTION, admin: { url, ...more } });
    expect(admin).toMatchObject({ environment, host: "127.0.0.1", proxy: false });
    expect(Object.isFrozen(admin)).toBe(true);
  });

  it("is nowhere by default", () => {
    expect(readConfiguration(SMALLEST).admin).toBeUndefined();
  });
});
