/** The credentials and the signature of all senders. */

export const CREDENTIALS = {
  client_id: "bench",
  client_secret: "a secret of the benchmark",
} as const;

export const SIGNING_SECRET: string = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;

/** The documented body, for attempts that are measured alone and for bare jobs. */
export function documentedBody(user: string): object {
  return {
    notification_type: "PROFILE_CHANGED",
    data: {
      user_id: 42,
      user_uuid: user,
      user_email: "ada@example.com",
      timestamp: 1_763_000_000,
      services: { 1: null },
    },
  };
}
