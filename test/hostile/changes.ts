/** Hostile values, queries and bodies. */
import { type Change, parametersIn, type Sample } from "./requests.ts";
import { PLANTED } from "./verdict.ts";

/** A change with its name. */
export type NamedChange = readonly [what: string, change: Change];

/** Encoded values that are never valid. */
export const MALFORMED: readonly string[] = [
  "%00",
  "a%00b",
  "%",
  "%4",
  "%zz",
  "%ff",
  "%C3",
  "%ED%A0%80",
  "%C0%AF",
  "%F8%88%80%80%80",
];

/** Unusual, well-formed values. */
export const STRANGE: readonly string[] = [
  "",
  "x".repeat(10_000),
  `%0d%0aSet-Cookie:%20${PLANTED}=1%0d%0a${PLANTED}:%20yes`,
  `%0d%0a%0d%0a%3Cscript%3E${PLANTED}`,
  `%22%3E%3Cscript%3E${PLANTED}%3C/script%3E`,
  "%5Bobject%20Object%5D",
  "%F0%9F%92%A9%E2%80%AE%EF%BB%BF",
  "..%2f..%2fetc%2fpasswd",
  "%7B%22%24gt%22%3A%22%22%7D",
  "'%20OR%20'1'='1",
  "-1",
  "null",
];

/** Unknown or dangerous parameters. */
const FOREIGN: readonly string[] = [
  "__proto__=x",
  "__proto__%5Badmin%5D=1",
  "constructor=x",
  "constructor%5Bprototype%5D%5Badmin%5D=1",
  "toString=x",
  "hasOwnProperty=1",
  "=x",
  "sent_state=.forged",
  "request=eyJhbGciOiJub25lIn0.e30.",
  "request_uri=urn:ietf:params:oauth:request_uri:x",
  "registration=%7B%7D",
  "dpop_jkt=x",
  "resource=x",
  "login_hint=%3Cb%3E",
  "ui_locales=../../x%20zz",
  "web_message_uri=x",
];

/** Invalid Authorization headers. */
export const AUTHORIZATIONS: readonly string[] = [
  "",
  "Basic",
  "Basic ====",
  "Basic %%%",
  "Basic bm9jb2xvbg==",
  `Basic ${Buffer.from("news:wrong").toString("base64")}`,
  `Basic ${Buffer.from("%zz:%").toString("base64")}`,
  `Basic ${Buffer.from("\0:\0").toString("base64")}`,
  `Basic ${Buffer.from([0xff, 58, 0xfe]).toString("base64")}`,
  `Basic ${Buffer.from(`news:${"x".repeat(4_000)}`).toString("base64")}`,
  `Basic ${Buffer.from("__proto__:constructor").toString("base64")}`,
  "Bearer",
  "Bearer a b",
  "Bearer \u00ff\u00fe",
  `Bearer ${"x".repeat(4_000)}`,
  "Bearer __proto__",
  "DPoP x",
  "Negotiate x",
];

/** Content types other than forms. */
export const TYPES: readonly string[] = [
  "application/json",
  "text/plain",
  "multipart/form-data; boundary=x",
  "application/x-www-form-urlencoded-not",
  "*/*",
  "garbage",
];

/** One parameter replaced, the others as they were. */
export function replaced(sample: Sample, value: string): NamedChange[] {
  return parametersIn(sample).flatMap(({ at, fields }) =>
    Object.keys(fields).map((name) => {
      const pairs = Object.entries(fields).map(([other, own]) =>
        other === name ? `${other}=${value}` : `${other}=${encodeURIComponent(own)}`,
      );
      return [`${name}=${value}`, at === "query" ? { query: pairs.join("&") } : { body: pairs.join("&") }];
    }),
  );
}

/** Missing, repeated, list-like and additional parameters. */
export function misshapen(sample: Sample): NamedChange[] {
  const made: NamedChange[] = [];
  for (const { at, fields } of parametersIn(sample)) {
    const text = new URLSearchParams(fields).toString();
    const put = (what: string, sent: string): void =>
      void made.push([what, at === "query" ? { query: sent } : { body: sent }]);
    put("nothing", "");
    put("all twice", `${text}&${text}`);
    put("many", `${text}&${"a=b&".repeat(500)}`);
    put("separators", `&&&${text}&&=&;&`);
    for (const pair of FOREIGN) put(pair, `${text}&${pair}`);
    for (const name of Object.keys(fields)) {
      const rest = Object.entries(fields).filter(([other]) => other !== name);
      put(`without ${name}`, new URLSearchParams(rest).toString());
      put(`twice ${name}`, `${text}&${name}=x`);
      put(`list ${name}`, text.replace(`${name}=`, `${name}[]=`));
    }
  }
  return made;
}
