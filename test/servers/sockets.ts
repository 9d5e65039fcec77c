/** The TCP connections of another process, as the system counts them: the same for every kind of server. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** The result of `read`; `otherwise` if the process or the descriptor has gone meanwhile. */
function unlessGone<T>(read: () => T, otherwise: T): T {
  try {
    return read();
  } catch {
    return otherwise;
  }
}

/** The inodes of all sockets that are connected, or connecting, to a port. */
function socketsTo(port: number): ReadonlySet<string> {
  const end = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const rows = ["tcp", "tcp6"].flatMap((table) => readFileSync(`/proc/net/${table}`, "utf8").split("\n"));
  const fields = rows.map((row) => row.trim().split(/\s+/));
  return new Set(
    fields.flatMap(([, , to = "", , , , , , , inode = ""]) => (to.endsWith(end) ? [inode] : [])),
  );
}

/** How many connections a process has to a port. */
export function connectionsOf(pid: number, port: number): number {
  const folder = `/proc/${pid}/fd`;
  const found = unlessGone(() => readdirSync(folder), []);
  const links = found.map((fd) => unlessGone(() => readlinkSync(`${folder}/${fd}`), ""));
  const sockets = socketsTo(port);
  return links.filter((link) => sockets.has(/^socket:\[(\d+)\]$/.exec(link)?.[1] ?? "")).length;
}
