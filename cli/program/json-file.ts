/** Reads JSON files that an operator names. Messages never quote a file, which may contain secrets. */
import { readFile } from "node:fs/promises";
import { CommandFailure } from "./command-failure.ts";
import { findJsonFault } from "../../config/json-text.ts";
import { isObject } from "../../core/untrusted-json.ts";

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: "does not exist",
  EACCES: "can't be read: permission denied",
  EISDIR: "is a folder",
};

/** Why a file can't be read. @param code of the error of the file system. */
export function fileProblem(code: string): string {
  return REASONS[code] ?? `can't be read: ${code}`;
}

/** @throws CommandFailure with exit code 2. */
export async function readBytes(path: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (cause) {
    const code = String(Reflect.get(Object(cause), "code"));
    throw new CommandFailure(`${path} ${fileProblem(code)}.`, {
      code: "invalid_argument",
      cause,
    });
  }
}

/** @throws CommandFailure with exit code 2. */
export async function readJsonObject(path: string): Promise<Readonly<Record<string, unknown>>> {
  return objectIn((await readBytes(path)).toString("utf8"), path);
}

/** @param name where the text comes from. @throws CommandFailure with exit code 2. */
export function objectIn(text: string, name: string): Readonly<Record<string, unknown>> {
  const value = parse(text, name);
  if (isObject(value)) return value;
  throw new CommandFailure(`${name} must contain a JSON object.`, { code: "invalid_argument" });
}

function parse(text: string, name: string): unknown {
  const json = text.replace(/^\uFEFF/u, "");
  const fault = findJsonFault(json);
  if (fault === undefined) return JSON.parse(json);
  const { line, column, what } = fault;
  throw new CommandFailure(`${name} is not valid JSON: line ${line}, column ${column}: ${what}.`, {
    code: "invalid_argument",
  });
}
