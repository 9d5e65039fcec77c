/** A service that runs beside imports and exports, and the folder of their files. */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createLogger } from "../../../core/logger.ts";
import { createSignInServiceOver, type InternalService } from "../../../lib/service.ts";
import { openStorage, type Storage } from "../../../records/storage.ts";
import type { CommandContext } from "../../../cli/program/command.ts";
import { newFolder } from "../../examples/processes.ts";
import { BACKENDS, newStorage, type StorageConfig } from "../../servers/storage.ts";
import { here, type Outcome } from "../here.ts";

export const OPERATOR = "0e0e0e0e-0e0e-4e0e-8e0e-0e0e0e0e0e0e";

const SETTINGS = {
  deployments: {
    oauth2: { url: "http://127.0.0.1:39998/oauth2" },
    openid: { url: "http://127.0.0.1:39998/openid" },
  },
  mail: { url: "smtp://127.0.0.1:9", from: "sign-in@example.com" },
  providers: {
    google: { client_id: "a", client_secret: "the-secret-at-a-provider" },
    github: { client_id: "a", client_secret: "the-secret-at-a-provider" },
  },
  accounts: {
    attributes: {
      department: { type: "text", label: "Department" },
      floor: { type: "integer", label: "Floor" },
      remote: { type: "boolean", label: "Remote" },
    },
  },
  operators: { [OPERATOR]: "support" },
} as const;

/** A line of a file of errors. */
export interface Refused {
  readonly line: number;
  readonly code: string;
  readonly message: string;
}

export class TransferStage {
  readonly service: InternalService;
  /** What the service stores. */
  readonly storage: Storage;
  readonly #folder: string;

  private constructor(folder: string, service: InternalService, storage: Storage) {
    this.#folder = folder;
    this.service = service;
    this.storage = storage;
  }

  static async open(): Promise<TransferStage> {
    const folder = newFolder();
    const file = { storage: `sqlite:${join(folder, "sign-in.db")}` };
    const own: StorageConfig = BACKENDS.join() === "sqlite" ? file : await newStorage();
    // In memory, no other process can read the storage.
    const storage = own.storage === "sqlite::memory:" ? { ...own, ...file } : own;
    const config = { ...SETTINGS, ...storage, keys: { secrets: [Buffer.alloc(32, 9).toString("base64")] } };
    writeFileSync(join(folder, "sign-in.json"), JSON.stringify(config), { mode: 0o600 });
    let opened: Storage | undefined;
    const service = await createSignInServiceOver(
      { ...config, notifications: { worker: false }, logger: createLogger({ level: "silent" }) },
      async (configuration, onWarning) => (opened = await openStorage(configuration, onWarning)),
      { cheapHashes: true },
    );
    await service.directory.portals.put("main", { name: "Main" });
    await service.directory.services.put("news", { name: "News", roles: ["editor", "author"] });
    return new TransferStage(folder, service, opened as Storage);
  }

  async close(): Promise<void> {
    await this.service.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  path(name: string): string {
    return join(this.#folder, name);
  }

  /** Writes a file. @param content lines, or everything as it is. */
  write(name: string, content: string | Buffer | readonly object[]): string {
    const text = Array.isArray(content)
      ? content.map((each) => `${JSON.stringify(each)}\n`).join("")
      : content;
    writeFileSync(this.path(name), text as string | Buffer);
    return this.path(name);
  }

  cli(words: readonly string[], context: Partial<CommandContext> = {}): Promise<Outcome> {
    return here([...words, "--config", this.path("sign-in.json")], context);
  }

  /** Imports a file. @returns the counts, and what was refused. */
  async import(
    file: string,
    ...options: readonly string[]
  ): Promise<{
    readonly counts: Record<string, number>;
    readonly refused: readonly Refused[];
    readonly outcome: Outcome;
  }> {
    const errors = this.path("errors.jsonl");
    const words = ["accounts", "import", file, "--json", "--errors", errors, ...options];
    const outcome = await this.cli(words);
    const refused = linesOf<Refused>(readFileSync(errors, "utf8"));
    const counts = linesOf<Record<string, number>>(outcome.out).at(-1) ?? {};
    return { counts, refused, outcome };
  }

  /** The lines of an export without credentials. */
  async export(): Promise<readonly Record<string, unknown>[]> {
    return linesOf((await this.cli(["accounts", "export"])).out);
  }
}

export function linesOf<T = Record<string, unknown>>(text: string): T[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as T);
}
