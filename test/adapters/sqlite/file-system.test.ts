import { expect, it } from "@jest/globals";
import { networkFileSystem } from "../../../adapters/sqlite/file-system.ts";

it.each([
  ["NFS", 0x6969],
  ["CIFS", 0xff534d42],
  ["CIFS", 0xff534d42 - 2 ** 32],
  ["9P", 0x01021997],
  [undefined, 0xef53],
])("a database file on a network file system is recognised: %s", async (name, type) => {
  const asked: string[] = [];
  const look = async (folder: string): Promise<number> => {
    asked.push(folder);
    return type;
  };
  await expect(networkFileSystem("/data/sign-in.db", look)).resolves.toBe(name);
  expect(asked).toEqual(["/data"]);
});

it("a missing folder, or a local one, is not on a network file system", async () => {
  await expect(networkFileSystem("/none/of/these/sign-in.db")).resolves.toBeUndefined();
  await expect(networkFileSystem(import.meta.filename)).resolves.toBeUndefined();
});
