/** Whether a database file is on a network file system, where processes on several machines can't share it. */
import { statfs } from "node:fs/promises";
import { dirname, resolve } from "node:path";

/** The numbers by which Linux tells these file systems: `statfs(2)`. FUSE, which is often local, is not among them. */
const NETWORK: ReadonlyMap<number, string> = new Map([
  [0x6969, "NFS"],
  [0x517b, "SMB"],
  [0xff534d42, "CIFS"],
  [0xfe534d42, "SMB"],
  [0x01021997, "9P"],
  [0x00c36400, "Ceph"],
  [0x5346414f, "AFS"],
  [0x47504653, "GPFS"],
  [0x0bd00bd0, "Lustre"],
]);

/**
 * @param look for tests: the type of the file system of a folder. Default: the system's answer.
 * @returns the name of the network file system that a database file is on; `undefined` for others, and where it can't be told.
 */
export async function networkFileSystem(
  path: string,
  look: (folder: string) => Promise<number> = async (folder) => (await statfs(folder)).type,
): Promise<string | undefined> {
  // Other systems number their file systems in other ways.
  if (process.platform !== "linux") return undefined;
  const type = await look(dirname(resolve(path))).catch(() => undefined);
  // Some of these numbers are negative as a signed integer.
  return type === undefined ? undefined : NETWORK.get(type >>> 0);
}
