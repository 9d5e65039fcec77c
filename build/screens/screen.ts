/** What a screen is, and the person and the moment that all of them share. */
import type { Visit } from "../../interactions/page.ts";

/** One page or mail in one state. */
export interface Screen {
  readonly name: string;
  html(visit: Visit): string;
}

/** The moment at which everything is shown, in milliseconds since the epoch. */
export const NOW: number = Date.UTC(2026, 8, 21, 14, 20);
export const MINUTE_MS = 60_000;

/** Ada's account. */
export const SUB = "5b8a2c0e-1111-4222-8333-444455556666";
export const ADA = "ada@example.com";
export const ACCOUNT_URL = "/account";

const HALF = ["K7QM2-XTV4N", "2D9GH-W5RKC", "ZB8PT-3YN6J", "QX4VM-7HDC2", "5RTKW-G9JPN"];
export const RECOVERY_CODES: readonly string[] = [
  ...HALF,
  ...HALF.map((each) => each.split("").toReversed().join("")),
];
