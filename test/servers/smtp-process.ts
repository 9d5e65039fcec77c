/**
 * A mail server as a process of its own: `node smtp-process.ts PORT [MODE]`. It prints `listening PORT`, and each
 * message that it receives with its number, as a line of JSON.
 *
 * Modes: `silent` accepts connections and never says anything; `dies` ends in the middle of a message; `slow` prints a
 * message and never confirms it; `password` takes passwords in clear, and prints `auth` for each. Otherwise the recipient chooses: `refused@…` is refused for good, `later@…` is put off
 * twice, `closed@…` has its connection closed.
 */
import { createServer, type AddressInfo } from "node:net";
import { SMTPServer } from "smtp-server";

const [port = "0", mode] = process.argv.slice(2);

function say(server: { address(): unknown }): void {
  console.log(`listening ${(server.address() as AddressInfo).port}`);
}

function answer(status: number, text: string): Error {
  return Object.assign(new Error(text), { responseCode: status });
}

if (mode === "silent") {
  const server = createServer((socket) => void socket.on("error", () => undefined));
  server.listen(Number(port), "127.0.0.1", () => say(server));
} else {
  let count = 0;
  const put = new Map<string, number>();
  const smtp = new SMTPServer({
    authOptional: true,
    disabledCommands: mode === "password" ? ["STARTTLS"] : ["STARTTLS", "AUTH"],
    allowInsecureAuth: true,
    onAuth(_auth, _session, callback) {
      console.log("auth");
      callback(null, { user: "anybody" });
    },
    logger: false,
    onRcptTo({ address }, { remoteAddress }, callback) {
      const [name = ""] = address.split("@");
      const times = (put.get(address) ?? 0) + 1;
      put.set(address, times);
      console.log(`recipient ${name} ${times}${remoteAddress === "127.0.0.1" ? "" : " from outside"}`);
      if (name === "refused") callback(answer(550, `5.1.1 no such person: ${address}`));
      else if (name === "later" && times <= 2) callback(answer(451, `4.7.1 greylisted: ${address}`));
      else callback();
    },
    onData(stream, { envelope }, callback) {
      const parts: Buffer[] = [];
      stream.on("data", (part: Buffer) => {
        if (mode === "dies") process.exit(1);
        parts.push(part);
      });
      stream.on("end", () => {
        const to = envelope.rcptTo.map(({ address }) => address);
        const from = envelope.mailFrom === false ? "" : envelope.mailFrom.address;
        count += 1;
        console.log(`message ${count} ${JSON.stringify({ from, to, raw: Buffer.concat(parts).toString() })}`);
        if (mode !== "slow") callback();
      });
    },
  });
  smtp.on("error", () => undefined);
  const { server } = smtp;
  smtp.listen(Number(port), "127.0.0.1", () => say(server));
}
