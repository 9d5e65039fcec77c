/** The login step of a running sign-in, as a page and as JSON: the requests of a crowd that signs in at once. */
import { again } from "../load.ts";
import { type Measurement, perSecond } from "../result.ts";
import { inTurns } from "../rounds.ts";
import { CALLBACK, CLIENT } from "../servers/people.ts";
import { startSide } from "../side.ts";

/** Responses per second on one core. */
const TARGET = 3_000;

export const pages: Measurement = {
  name: "pages",
  async run(effort, folder) {
    const side = await startSide("service", { options: { file: `${folder}/pages.db` } });
    try {
      const base = side.ready["base"] ?? "";
      const step = await startSignIn(base);
      const get = (accept: string) => async (): Promise<number> => {
        const headers = { accept, cookie: step.cookie };
        return (await again(base, { method: "GET", target: step.path, headers }, effort)).perSecond;
      };
      const rates = await inTurns(effort, { html: get("text/html"), json: get("application/json") });
      const row = (work: string, value: number) =>
        ({ work, against: "on one core", value, unit: "/s", target: TARGET, raw: perSecond(value) }) as const;
      return [row("login page", rates.html), row("login step as JSON", rates.json)];
    } finally {
      await side.stop();
    }
  },
};

/** Starts a sign-in as a browser does. @returns the path of its step, and the cookies that belong to it. */
async function startSignIn(base: string): Promise<{ readonly path: string; readonly cookie: string }> {
  const query = new URLSearchParams({
    client_id: CLIENT.client_id,
    response_type: "code",
    redirect_uri: CALLBACK,
  });
  const response = await fetch(`${base}/oauth2/authorize?${query.toString()}`, { redirect: "manual" });
  await response.arrayBuffer();
  const location = response.headers.get("location");
  if (location === null) throw new Error(`${response.status} instead of a redirect to the login page`);
  const cookies = response.headers.getSetCookie().map((cookie) => cookie.split(";", 1)[0]);
  return { path: new URL(location, base).pathname, cookie: cookies.join("; ") };
}
