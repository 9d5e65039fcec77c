/** Secrets that are typed, or come from standard input: never from the arguments, which other users can see. */
import { StringDecoder } from "node:string_decoder";
import type { ReadStream } from "node:tty";
import type { CommandContext } from "./command.ts";
import { CommandFailure, misused } from "./command-failure.ts";
import type { Output } from "./progress.ts";

/** Reads a line without showing it. Rejects when the signal is aborted. */
export async function askWithoutEcho(
  question: string,
  {
    input,
    output,
    stop,
  }: { readonly input: ReadStream; readonly output: Output; readonly stop: AbortController },
): Promise<string> {
  output.write(question);
  const decoder = new StringDecoder("utf8");
  input.setRawMode(true);
  input.resume();
  let line = "";
  try {
    return await new Promise<string>((resolve, reject) => {
      input.on("data", (bytes: Buffer) => {
        for (const character of decoder.write(bytes)) {
          if (character === "\u0003" || character === "\u0004") {
            stop.abort();
            reject(stop.signal.reason as Error);
          } else if (character === "\r" || character === "\n") resolve(line);
          else if (character === "\u007F" || character === "\b") line = line.replace(/.$/u, "");
          else if (character >= " ") line += character;
        }
      });
    });
  } finally {
    input.removeAllListeners("data");
    input.setRawMode(false);
    input.pause();
    output.write("\n");
  }
}

/** A new secret: asked twice, or the first line of standard input. @param name of its option. */
export async function readNewSecret(
  { askSecret, readInput }: Pick<CommandContext, "askSecret" | "readInput">,
  name: string,
): Promise<string> {
  const what = name.replaceAll("-", " ");
  if (askSecret === undefined) {
    const [line = ""] = (await readInput()).split(/\r?\n/u, 1);
    if (line === "") throw misused(`The ${what} must be on standard input`);
    return line;
  }
  const password = await askSecret(`New ${what}: `);
  if ((await askSecret("The same again: ")) !== password)
    throw new CommandFailure(`The ${what}s differ. Nothing was changed.`);
  return password;
}
