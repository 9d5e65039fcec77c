/** Starts the mail server of the tests as a process, and reads what it received. */
import { start } from "../examples/processes.ts";

/** A received message. */
export interface ReceivedMail {
  readonly from: string;
  readonly to: readonly string[];
  /** Headers and body, as they came. */
  readonly raw: string;
}

export interface SmtpServer {
  readonly port: number;
  /** For `mail` of the configuration. */
  readonly url: string;
  received(): ReceivedMail[];
  /** Resolves when that many messages have arrived. */
  until(count: number): Promise<ReceivedMail[]>;
  /** Resolves when the output matches. */
  says(pattern: RegExp): Promise<unknown>;
  output(): string;
  close(): Promise<void>;
}

/**
 * @param mode see `smtp-process.ts`.
 * @param wanted the port. Default: any.
 */
export async function openSmtp(mode = "usual", wanted = 0): Promise<SmtpServer> {
  const running = start("test/servers/smtp-process.ts", { args: [String(wanted), mode] });
  const [, port] = await running.until(/listening (\d+)/);
  const received = (): ReceivedMail[] =>
    [...running.output().matchAll(/^message \d+ (.*)$/gm)].map(([, json = ""]) => JSON.parse(json));
  return {
    port: Number(port),
    url: `smtp://127.0.0.1:${port}`,
    received,
    async until(count) {
      await running.until(new RegExp(`^message ${count} .*$\\n`, "m"));
      return received();
    },
    says: (pattern) => running.until(pattern),
    output: () => running.output(),
    async close() {
      await running.stop("SIGKILL");
    },
  };
}

/** The value of a header, unfolded. */
export function header({ raw }: ReceivedMail, name: string): string | undefined {
  const [head = ""] = raw.split("\r\n\r\n", 1);
  const lines = head.replaceAll(/\r\n[ \t]+/g, " ").split("\r\n");
  return lines
    .find((line) => line.toLowerCase().startsWith(`${name.toLowerCase()}: `))
    ?.slice(name.length + 2);
}

/** The decoded parts of a message, by their types, also those inside other parts. */
export function bodyParts({ raw }: Pick<ReceivedMail, "raw">): Readonly<Record<string, string>> {
  const boundary = /boundary="([^"]+)"/.exec(raw)?.[1] ?? "";
  const parts = raw.split(`--${boundary}`).slice(1, -1);
  return Object.fromEntries(
    parts.flatMap((part) => {
      if (/^\s*Content-Type: multipart/i.test(part)) return Object.entries(bodyParts({ raw: part }));
      const [head = "", ...body] = part.split("\r\n\r\n");
      const type = /Content-Type: ([^;\r]+)/i.exec(head)?.[1] ?? "";
      const encoding = /Content-Transfer-Encoding: (\S+)/i.exec(head)?.[1] ?? "";
      return [[type, decoded(body.join("\r\n\r\n"), encoding)] as const];
    }),
  );
}

function decoded(body: string, encoding: string): string {
  if (encoding === "base64") return Buffer.from(body, "base64").toString();
  if (encoding !== "quoted-printable") return body;
  const bytes = body
    .replaceAll("=\r\n", "")
    .replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(bytes, "latin1").toString();
}
