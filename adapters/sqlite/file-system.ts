/** Whether a database file is on a network file system, where processes on several machines can't share it. */
import { statfs } from "node:fs/promises";
import { dirname, resolve } from "node:path";

/** Linux's numbers of network file systems: see `statfs(2)`. FUSE is left out, because it is often local. */
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
 * @param look returns the file-system type of a folder; tests replace it. Default: asks the system.
 * @returns the name of the network file system that a database file is on; `undefined` for others, and if it is
 * unknown.
 */
export async function networkFileSystem(
  path: string,
  look: (folder: string) => Promise<number> = async (folder) => (await statfs(folder)).type,
): Promise<string | undefined> {
  // Other systems use other numbers.
  if (process.platform !== "linux") return undefined;
  const type = await look(dirname(resolve(path))).catch(() => undefined);
  // Some of these numbers are negative as a signed integer.
  return type === undefined ? undefined : NETWORK.get(type >>> 0);
}
