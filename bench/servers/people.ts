/** The one person and the one client that every server of the benchmarks knows. */

export const PERSON = {
  username: "ada",
  email: "ada@example.com",
  password: "correct horse battery",
} as const;

/** Accounts that came from elsewhere, by username, with hashes that are much cheaper than ours. */
export const IMPORTED: Readonly<Record<string, string>> = {
  "bcrypt-4": "$2b$04$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
  "pbkdf2-1000": `$pbkdf2-sha256$1000$MDEyMzQ1Njc4OWFiY2RlZg$${"A".repeat(43)}`,
};

export const CLIENT = {
  client_id: "bench",
  client_secret: "the secret of the benchmarks",
} as const;

export const CALLBACK = "http://127.0.0.1:9/callback";

/** The documented Basic header of the client. */
export function basic(): string {
  return `Basic ${Buffer.from(`${CLIENT.client_id}:${encodeURIComponent(CLIENT.client_secret)}`).toString("base64")}`;
}
