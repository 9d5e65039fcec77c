import { SignInError } from "../errors.ts";

/** The service answered something that a helper of a test can't go on from; the message says what. */
export class UnexpectedAnswer extends SignInError {
  constructor(message: string) {
    super("unexpected_answer", message);
  }
}
