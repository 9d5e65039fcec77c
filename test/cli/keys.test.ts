/** `keys retire` asks for the name of the key that it makes useless. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { type Office, openOffice } from "./administration-stage.ts";
import { closing } from "../closing.ts";

let office: Office;
beforeAll(async () => {
  office = closing(await openOffice());
}, 60_000);

describe("the commands for keys", () => {
  it("retire a key only once its KID is typed again, or with --yes [D-KEYS-8]", async () => {
    await office.prepare();
    const kid = async (): Promise<string> => {
      const signing = (await office.objects("keys", "list")).find(({ state }) => state === "signing");
      return String(signing?.["kid"]);
    };
    const before = await kid();
    const retire = ["keys", "retire", before, "--config", office.config];
    expect(await office.here(retire)).toMatchObject({ code: 2, err: expect.stringContaining("--yes") });
    for (const answer of ["yes", "y", "", before.slice(1)]) {
      const refused = await office.here(retire, {
        confirm: async () => true,
        ask: async (question) => {
          expect(question).toContain(`Type ${before} to confirm: `);
          return answer;
        },
      });
      expect(refused).toMatchObject({ code: 1, err: "Nothing was changed.\n" });
    }
    expect(await kid()).toBe(before);
    const done = await office.here(retire, { ask: async () => ` ${before} ` });
    expect(done).toMatchObject({ code: 0, out: `Retired: ${before}\n` });
    const after = await kid();
    expect(after).not.toBe(before);
    const scripted = await office.here(["keys", "retire", after, "--yes", "--config", office.config]);
    expect(scripted).toMatchObject({ code: 0, out: `Retired: ${after}\n` });
  });
});
