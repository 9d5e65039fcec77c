/** Responses of the pages under `{base}/account` that the generic tables do not cover. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { OPERATOR, useService } from "../flows/running-service.ts";
import { fillConsole, WITH_CONSOLE } from "./account-samples.ts";
import { type Change, type Sample, samples, sendSample } from "./requests.ts";
import { verdict } from "./verdict.ts";

let all: Sample[];

const running = useService({
  config: WITH_CONSOLE,
});

beforeAll(async () => {
  const made = await samples(running, await fillConsole(running));
  all = made.filter(({ endpoint }) => endpoint === "account");
});

const forms = (): Sample[] => all.filter(({ method }) => method === "POST");
const questions = (): Sample[] => all.filter(({ method, url }) => method === "GET" && /deliveries/.test(url));

/** The status and the problems of a response. */
async function verdictOn(sample: Sample, change?: Change): Promise<unknown> {
  const { status, faults } = await verdict(sendSample(sample, change));
  return [sample.title, status, faults];
}

/** A form with one field changed or removed. */
function withField({ form = {} }: Sample, name: string, value: string | undefined): Change {
  const fields = Object.entries({ ...form, [name]: value }).filter((pair) => pair[1] !== undefined);
  return { body: new URLSearchParams(fields as [string, string][]).toString() };
}

describe("the pages of the account", () => {
  it("respond to valid requests on both deployments", async () => {
    const found: unknown[] = [];
    for (const sample of all) {
      const response = await sendSample(sample);
      const location = response.headers.get("location");
      found.push([sample.title, response.status, location === null ? "" : new URL(location).pathname]);
    }
    const expected = all.map(({ title, url, method }) => {
      const { pathname } = new URL(url);
      const moves = method === "POST" || pathname.endsWith("/callback");
      // The form that finds a person leads to their page.
      const target = pathname.endsWith("/people") ? expect.stringContaining(`${pathname}/`) : pathname;
      return [title, moves ? 303 : 200, moves ? target : ""];
    });
    expect(found).toEqual(expected);
    expect(all).toHaveLength(38);
  });

  it("refuse forms whose token is missing, wrong, of another form or of another user", async () => {
    const before = await running.service.audit.list({ limit: 1000 });
    for (const sample of forms()) {
      const { csrf = "" } = sample.form ?? {};
      const others = forms().flatMap(({ form = {} }) => (form["csrf"] === csrf ? [] : [form["csrf"] ?? ""]));
      const wrong = [
        undefined,
        "",
        "x",
        `${csrf}x`,
        csrf.slice(1),
        "x".repeat(10_000),
        "\u{1F4A9}",
        ...others,
      ];
      for (const value of wrong) {
        expect(await verdictOn(sample, withField(sample, "csrf", value))).toEqual([sample.title, 403, []]);
      }
      const cookie = { headers: { cookie: undefined } };
      expect(await verdictOn(sample, cookie)).toEqual([sample.title, 303, []]);
    }
    expect(await running.service.audit.list({ limit: 1000 })).toEqual(before);
  });

  it("refuse unknown and repeated filters", async () => {
    for (const sample of questions()) {
      for (const [name, own] of Object.entries(sample.query)) {
        const text = new URLSearchParams(sample.query).toString();
        const twice = { query: `${text}&${name}=${encodeURIComponent(own)}` };
        expect(await verdictOn(sample, twice)).toEqual([sample.title, 400, []]);
        // An invalid result is ignored.
        if (name === "result") continue;
        for (const value of [
          "x".repeat(10_000),
          "' OR '1'='1",
          "../../etc/passwd",
          "[object Object]",
          "\u202E",
        ]) {
          const strange = { query: new URLSearchParams({ ...sample.query, [name]: value }).toString() };
          expect(await verdictOn(sample, strange)).toEqual([sample.title, 400, []]);
        }
      }
    }
  });

  it("log nothing of their requests", async () => {
    const log = running.log.join("");
    const seals = forms().map(({ form = {} }) => form["csrf"] ?? "");
    const cookies = all
      .flatMap(({ headers }) => (headers["cookie"] ?? "").split("; "))
      .map((pair) => pair.slice(pair.indexOf("=") + 1));
    const given = seals.concat(cookies);
    const secrets = [...given.filter((value) => value.length > 7), OPERATOR.password, "the secret of it"];
    expect(secrets.length).toBeGreaterThan(20);
    expect(secrets.filter((secret) => log.includes(secret))).toEqual([]);
    expect(log).not.toMatch(/[\w.+-]+@[\w-]+\.\w+/);
  });
});
