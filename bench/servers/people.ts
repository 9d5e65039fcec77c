/** The one person and the one client that every server of the benchmarks knows. */

export const PERSON = {
  username: "ada",
  email: "ada@example.com",
  password: "correct horse battery",
} as const;

export const CLIENT = {
  client_id: "bench",
  client_secret: "the secret of the benchmarks",
} as const;

export const CALLBACK = "http://127.0.0.1:9/callback";

/** The documented Basic header of the client. */
export function basic(): string {
  return `Basic ${Buffer.from(`${CLIENT.client_id}:${encodeURIComponent(CLIENT.client_secret)}`).toString("base64")}`;
}
