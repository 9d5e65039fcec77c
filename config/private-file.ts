/** Writes files that only their owner can read: whole or not at all. */
import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { link, mkdir, open, rename, unlink } from "node:fs/promises";
import { dirname } from "node:path";

/** Only the owner can read and write. */
const MODE = 0o600;

/** Syncs the folder of a file, so that the file keeps its name after a power failure. */
export async function syncFolder(path: string): Promise<void> {
  // Windows can't open a folder, and syncs its entries itself.
  if (process.platform === "win32") return;
  const folder = await open(dirname(path), constants.O_RDONLY);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/**
 * Writes a file with mode 0600, and its folder if that is missing. The file appears complete, or not at all.
 *
 * @param place `link` refuses to replace a file, with the code `EEXIST`; `rename` replaces it.
 */
export async function writePrivateFile(
  path: string,
  text: string,
  { place }: { readonly place: "link" | "rename" },
): Promise<void> {
  const temporary = `${path}.${randomBytes(8).toString("hex")}.tmp`;
  await mkdir(dirname(path), { recursive: true }).catch((error: unknown) => {
    // A file where the folder should be: opening the new file says so.
    if (Reflect.get(Object(error), "code") !== "EEXIST") throw error;
  });
  const file = await open(temporary, "wx", MODE);
  try {
    try {
      // The umask of the process may have removed bits.
      await file.chmod(MODE);
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    if (place === "link") await link(temporary, path);
    else await rename(temporary, path);
    await syncFolder(path);
  } finally {
    await unlink(temporary).catch((error: unknown) => {
      // A rename has moved it.
      if (Reflect.get(Object(error), "code") !== "ENOENT") throw error;
    });
  }
}
