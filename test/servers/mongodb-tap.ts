/** A stretch of wire in front of a MongoDB that writes down which commands go through it. */
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { BSON, type Document } from "mongodb";

/** A command as it was sent, with its parts in one document. */
export interface SentCommand {
  readonly database: string;
  /** Such as `find`. */
  readonly name: string;
  readonly body: Document;
}

export interface Tap {
  /** The address of a server, as it is behind the tap. */
  url(behind: string): string;
  /** What was sent since it was last emptied, without the driver's own talk. */
  readonly commands: SentCommand[];
  /** The next answer to such a command is not let through: the connection ends instead. */
  cutAnswerTo(name: string): void;
  close(): Promise<void>;
}

const OP_MSG = 2013;
const HEADER = 16;
/** The driver's own: to find the server, to look at it, to sign in and to say good-bye. */
const TALK: ReadonlySet<string> = new Set(["hello", "ismaster", "ping", "endSessions", "killSessions"]);

/** A document and those that follow it, up to `end`. */
function documents(bytes: Buffer, from: number, end: number): Document[] {
  const found: Document[] = [];
  for (let at = from; at < end; at += bytes.readInt32LE(at)) {
    found.push(BSON.deserialize(bytes.subarray(at, at + bytes.readInt32LE(at)), { promoteValues: true }));
  }
  return found;
}

/** The body of an OP_MSG, with its lists of documents put where they belong. */
function toBody(message: Buffer): Document {
  const body: Document = {};
  // After the flags.
  for (let at = HEADER + 4; at < message.length;) {
    const kind = message[at];
    const size = message.readInt32LE(at + 1);
    if (kind === 0) {
      Object.assign(body, documents(message, at + 1, at + 1 + size)[0]);
    } else {
      const nameEnd = message.indexOf(0, at + 5);
      const list = documents(message, nameEnd + 1, at + 1 + size);
      body[message.toString("utf8", at + 5, nameEnd)] = list;
    }
    at += 1 + size;
  }
  return body;
}

/** Cuts what one side says into messages. */
function createReader(onMessage: (message: Buffer) => void): (chunk: Buffer) => void {
  let rest = Buffer.alloc(0);
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= HEADER && rest.length >= rest.readInt32LE(0)) {
      const size = rest.readInt32LE(0);
      onMessage(rest.subarray(0, size));
      rest = rest.subarray(size);
    }
  };
}

/** @param url of the server, with one host and one port. */
export async function openTap(url: string): Promise<Tap> {
  const { hostname, port } = new URL(url);
  const commands: SentCommand[] = [];
  const sockets = new Set<Socket>();
  let cutName: string | undefined;

  /** Returns the name of the command. */
  function note(message: Buffer): string {
    if (message.readInt32LE(12) !== OP_MSG) return "";
    const body = toBody(message);
    const [name = ""] = Object.keys(body);
    if (!TALK.has(name)) commands.push({ database: String(body["$db"]), name, body });
    return name;
  }

  const server = createServer((near) => {
    const far = connect(Number(port), hostname);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on("error", () => to.destroy());
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
    }
    let isCut = false;
    const read = createReader((message) => {
      if (note(message) !== cutName) return;
      cutName = undefined;
      isCut = true;
    });
    near.on("data", (chunk: Buffer) => {
      read(chunk);
      far.write(chunk);
    });
    far.on("data", (chunk: Buffer) => {
      // It has answered, so it has done it.
      if (isCut) near.destroy();
      else near.write(chunk);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port: own } = server.address() as AddressInfo;
  return {
    commands,
    cutAnswerTo(name) {
      cutName = name;
    },
    url: (behind) => behind.replace(`${hostname}:${port}`, `127.0.0.1:${own}`),
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
