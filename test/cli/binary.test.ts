/**
 * Examples of the commands on a service, typed into a shell as a person who reads the documentation does. The commands of the
 * table of operations differ in what they call: administration.test.ts runs each of them in its own process, and here is the
 * first one of each noun, or all of them in `npm run test:all`.
 */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { examplesOf, type Office, ON_SERVICE, openOffice, rowOf, SECRETS } from "./administration-stage.ts";
import { closing } from "../closing.ts";
import { rounds } from "../rounds.ts";

/** The first of each noun, every one that reads a file, and every one that is written by hand. */
const isTyped = (example: string, index: number): boolean =>
  index === 0 || example.includes(" < ") || rowOf(example) === undefined || rounds(0, 1) === 1;

let office: Office;

beforeAll(async () => {
  office = closing(await openOffice());
}, 60_000);

describe("the program, beside a running service", () => {
  it.each(ON_SERVICE)(
    "does what examples of %s say",
    async (noun) => {
      const examples = examplesOf(noun).filter(isTyped);
      expect(examples.length).toBeGreaterThan(0);
      for (const example of examples) {
        const isEndless = example.startsWith("audit tail");
        const line = `${isEndless ? "timeout --preserve-status -s INT 5 " : ""}sign-in-service ${await office.placed(example)}`;
        // No secret is lost here, and the seed is another one.
        const code = isEndless ? 130 : Number(/^(?:keys reset --lost|seed diff sign-in)/u.test(example));
        expect([line, await office.shell(line)]).toEqual([line, expect.objectContaining({ code })]);
      }
    },
    120_000,
  );

  // The last test: it looks at what all others have printed.
  it("never prints a secret", () => {
    expect(office.printed).not.toBe("");
    for (const [name, secret] of Object.entries(SECRETS))
      expect([name, office.printed.includes(secret)]).toEqual([name, false]);
  });
});
