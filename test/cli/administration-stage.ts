/** A service that runs beside the command line, with everything that the examples of the commands name. */
import { execFileSync, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { chmodSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { type AnyRow, isOn } from "../../accounts/operations/operation.ts";
import { kebab, type Noun, rowsOf, TABLES } from "../../administration/tables.ts";
import type { CommandContext } from "../../cli/program/command.ts";
import { createSignInService, type SignInService } from "../../lib/index.ts";
import { createLogger } from "../../core/logger.ts";
import { ROOT } from "../examples/documents.ts";
import type { EntrySettings } from "../../accounts/operations/directory.ts";
import { BACKENDS, newStorage, type StorageConfig } from "../servers/storage.ts";
import { bareEnvironment, newFolder } from "../examples/processes.ts";
import { COMMANDS } from "../../cli/commands.ts";
import { here, type Outcome } from "./here.ts";
import { storedDeliveries } from "../notifier/stored-deliveries.ts";

/** An operator of the configuration. */
const OPERATOR = "6b3e0a52-6d3b-4a39-9c55-0f2b8f0c7a11";

/** Secrets that no output may contain. */
export const SECRETS: Readonly<
  Record<
    | "password"
    | "app"
    | "sealing"
    | "receiver"
    | "signing"
    | "mail"
    | "cookies"
    | "metrics"
    | "seed"
    | "provider",
    string
  >
> = {
  password: "correct horse battery staple",
  app: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP",
  sealing: Buffer.alloc(32, 7).toString("base64"),
  receiver: "the-password-of-the-receiver",
  signing: `whsec_${Buffer.alloc(32, 5).toString("base64")}`,
  mail: "the-password-of-the-mail-server",
  cookies: "the-key-of-the-cookies-is-quite-long",
  metrics: "the-token-of-the-metrics",
  seed: "the-secret-of-a-client-in-the-seed",
  provider: "the-secret-at-a-provider",
};

const RECEIVER: Omit<NonNullable<EntrySettings["receiver"]>, "url"> = {
  client_id: "sign-in",
  client_secret: SECRETS.receiver,
  signing_secret: SECRETS.signing,
  types: ["DELETE_ACCOUNT", "UNASSINGED_FROM_SERVICE", "PROFILE_CHANGED"],
};

/** Nouns whose commands work on a service. Those of `storage` are tested with those commands. */
export const ON_SERVICE: readonly string[] = Object.keys(COMMANDS.nouns).filter((noun) => noun !== "storage");

/** The examples of the commands of a noun. */
export function examplesOf(noun: string): readonly string[] {
  return COMMANDS.commands.filter(({ words: [first] }) => first === noun).flatMap(({ examples }) => examples);
}

/** The row of the table of operations that an example is of; `undefined` for a command that is written by hand. */
export function rowOf(example: string): AnyRow | undefined {
  if (example.includes("--from-seed")) return undefined;
  const rows = (Object.keys(TABLES) as Noun[]).flatMap((noun) =>
    Object.entries(rowsOf(noun)).map(([verb, row]) => [row.words ?? `${noun} ${kebab(verb)}`, row] as const),
  );
  return rows.find(([words, row]) => isOn(row, "command") && `${example} `.startsWith(`${words} `))?.[1];
}

/** The folder that the examples run in, and the service beside them. */
export class Office {
  readonly folder: string;
  readonly service: SignInService;
  /** What the examples put as the receiver of a service. */
  readonly receiver: NonNullable<EntrySettings["receiver"]>;
  /** Everything that commands have printed. */
  printed = "";

  /** Closes what belongs to it. */
  close: () => Promise<void>;

  private constructor(folder: string, service: SignInService, receiver: Office["receiver"]) {
    this.folder = folder;
    this.service = service;
    this.receiver = receiver;
    this.close = () => service.close();
  }

  /** Opens the service, and writes into the folder the program and the files that the examples name. */
  static async open(folder: string, storage: StorageConfig, receiverUrl: string): Promise<Office> {
    const receiver = { ...RECEIVER, url: receiverUrl };
    const base = "http://127.0.0.1:39999";
    const config = {
      deployments: { oauth2: { url: `${base}/oauth2` }, openid: { url: `${base}/openid` } },
      mail: { url: `smtp://mailer:${SECRETS.mail}@127.0.0.1:9`, from: "sign-in@example.com" },
      metrics: { token: SECRETS.metrics },
      operators: { [OPERATOR]: "support" as const },
      providers: { google: { client_id: "news", client_secret: SECRETS.provider } },
      notifications: { allowedReceivers: ["127.0.0.0/8"] },
      clients: { metadataDocuments: { allow: ["https://agent.example.com"] } },
      ...storage,
      keys: { secrets: [SECRETS.sealing], cookies: [SECRETS.cookies] },
    };
    const write = (name: string, content: unknown): void =>
      writeFileSync(join(folder, name), typeof content === "string" ? content : JSON.stringify(content), {
        mode: 0o600,
      });
    const redirect_uris = ["https://news.example.com/callback"];
    const client = { client_id: "news", client_secret: SECRETS.seed, service: "news", redirect_uris };
    write("sign-in.json", { ...config, port: 3000, seed: { clients: [client] } });
    write("password.txt", `${SECRETS.password}\n`);
    write("receiver.json", receiver);
    write("accounts.jsonl", { email: "barbara@example.com", name: "Barbara" });
    write("realm.json", { realm: "corp", users: [{ id: randomUUID(), email: "edsger@example.com" }] });
    const program = join(folder, "sign-in-service");
    write("sign-in-service", `#!/bin/sh\nexec "${process.execPath}" "${join(ROOT, "cli/main.ts")}" "$@"\n`);
    chmodSync(program, 0o755);
    const service = await createSignInService({
      ...config,
      notifications: { ...config.notifications, worker: false },
      logger: createLogger({ level: "silent" }),
    });
    return new Office(folder, service, receiver);
  }

  /** Puts everything that the examples name where they expect it. */
  async prepare(): Promise<string> {
    const { accounts, clients, directory, documents } = this.service;
    await documents.block("https://other.example.com", {});
    for (const group of ["media", "sports"]) await directory.groups.put(group, { name: group });
    for (const portal of ["main", "old"]) await directory.portals.put(portal, { name: portal });
    await directory.services.put("weather", { name: "Weather" });
    await directory.services.put("news", {
      name: "News",
      group: "media",
      roles: ["editor", "author"],
      receiver: this.receiver,
    });
    if ((await clients.find("news")) === undefined) {
      const redirect_uris = ["https://news.example.com/callback"];
      await clients.register({ client_id: "news", name: "News", service: "news", redirect_uris });
    }
    for (const identifier of ["https://api.example.com", "https://old.example.com"])
      await directory.apis.put(identifier, {
        name: "API",
        service: "news",
        scopes: { "articles:write": "Write" },
      });
    if ((await clients.find("nightly-export")) === undefined)
      await clients.register({
        client_id: "nightly-export",
        kind: "machine",
        name: "Export",
        service: "news",
      });
    const login = (await accounts.findByLogin("ada@example.com")) !== undefined;
    const email = login ? `${crypto.randomUUID()}@example.com` : "ada@example.com";
    const { sub } = await accounts.create({ email, password: SECRETS.password, gender: "female" });
    await accounts.assign(sub, "news", 5);
    return sub;
  }

  /** @returns the id of a waiting delivery. */
  async waiting(sub: string): Promise<string> {
    await this.service.accounts.update(sub, { surname: "Lovelace" });
    const [delivery] = await storedDeliveries(this.service.notifications, { account: sub });
    return delivery?.id ?? "";
  }

  /** @returns the `sub` of an operator with an authenticator app. */
  async operator(): Promise<string> {
    const { accounts } = this.service;
    if ((await accounts.find(OPERATOR)) === undefined) {
      await accounts.import({ sub: OPERATOR, email: "operator@example.com", password: SECRETS.password });
      await accounts.addApp(OPERATOR, { secret: SECRETS.app });
    }
    return OPERATOR;
  }

  /** The example with the identifiers of what exists. */
  async placed(example: string): Promise<string> {
    const sub = await this.prepare();
    const isUnblocked = example.startsWith("documents block");
    if (isUnblocked || example.startsWith("documents unblock")) {
      await this.service.documents.block("https://agent.example.com", {});
      if (isUnblocked) await this.service.documents.unblock("https://agent.example.com");
    }
    if (example.startsWith("factors ")) await this.service.accounts.addApp(sub, { secret: SECRETS.app });
    if (example.startsWith("identities unlink"))
      await this.service.accounts.linkIdentity(sub, { provider: "google", subject: randomUUID() });
    if (/\bKID\b/u.test(example)) {
      const [key] = await this.objects("keys", "list");
      return example.replace("KID", String(key?.["kid"]));
    }
    if (/\bRECORD\b/u.test(example)) {
      const [record] = await this.objects("audit", "list", "--limit", "1");
      return example.replace("RECORD", String(record?.["id"]));
    }
    if (example.includes("--user-id")) {
      const person = await this.service.accounts.find(sub);
      return example.replace(/(?<=--user-id )\d+/u, String(person?.user_id));
    }
    if (example.startsWith("operators confirm")) return example.replace("SUB", await this.operator());
    if (example.includes("TOKEN_ID")) {
      const { id } = await this.service.tokens.create({ role: "viewer", expires: 3_600 });
      return example.replace("TOKEN_ID", id);
    }
    if (!/\bID\b/u.test(example)) return example.replaceAll(/\bSUB\b/gu, sub);
    if (example.startsWith("invitations ")) {
      const { id } = await this.service.accounts.invite({ email: `${crypto.randomUUID()}@example.com` });
      return example.replace(/\bID\b/u, id);
    }
    const id = await this.waiting(sub);
    if (example.startsWith("deliveries redrive ")) await this.service.notifications.discard(id);
    return example.replace(/\bID\b/u, id);
  }

  /**
   * Runs an example in this process, with the words and the standard input that a shell makes of it.
   * @param endsAfter milliseconds after which it is interrupted.
   */
  example(line: string, endsAfter?: number): Promise<Outcome> {
    const stop = new AbortController();
    if (endsAfter !== undefined) setTimeout(() => stop.abort(), endsAfter);
    const { words, input } = this.#read(line);
    // The folder is the current one of the shell, not of this process.
    const placed = words.map((word) => (/^[\w-]+\.\w+$/u.test(word) ? join(this.folder, word) : word));
    return this.here(placed, {
      variables: new Map([["SIGN_IN_CONFIG", this.config]]),
      signal: stop.signal,
      readInput: async () => input,
    });
  }

  /** What a shell gives to the program for this line. */
  #read(line: string): { readonly words: readonly string[]; readonly input: string } {
    const program = `program() { printf '%s\\0' "$#" "$@"; cat; }\nprogram ${line}`;
    const options = { cwd: this.folder, input: "", encoding: "utf8" } as const;
    const [count = "", ...parts] = execFileSync("sh", ["-euc", program], options).split("\0");
    return { words: parts.slice(0, Number(count)), input: parts.slice(Number(count)).join("\0") };
  }

  /** Runs a line of a shell, as a person who reads the documentation does. */
  async shell(line: string): Promise<Outcome> {
    const child = spawn("sh", ["-c", line], {
      cwd: this.folder,
      env: { ...bareEnvironment(), PATH: `${this.folder}:${process.env["PATH"] ?? ""}` },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const [out, err, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, "exit"),
    ]);
    this.printed += out + err;
    return { code: Number(code), out, err };
  }

  /** Runs a command in this process. */
  async here(words: readonly string[], context: Partial<CommandContext> = {}): Promise<Outcome> {
    const outcome = await here(words, context);
    this.printed += outcome.out + outcome.err;
    return outcome;
  }

  /** The same with the configuration and `--json`. @returns the objects that were printed. */
  async objects(...words: readonly string[]): Promise<readonly Record<string, unknown>[]> {
    const { code, out, err } = await this.here([...words, "--json", "--config", this.config]);
    if (code !== 0) throw new Error(`${words.join(" ")} ended with ${code}: ${err}`);
    return out
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  get config(): string {
    return join(this.folder, "sign-in.json");
  }
}

/** A new office on the storage of this run, with a receiver that accepts everything. */
export async function openOffice(): Promise<Office> {
  const folder = newFolder();
  const receiver = createServer((_request, response) => void response.writeHead(204).end());
  receiver.listen(0, "127.0.0.1");
  await once(receiver, "listening");
  const { port } = receiver.address() as AddressInfo;
  const file = { storage: `sqlite:${join(folder, "sign-in.db")}` };
  const isFile = BACKENDS.join() === "sqlite";
  // In memory, no other process can read the storage.
  const own = isFile ? file : await newStorage();
  const storage = own.storage === "sqlite::memory:" ? { ...own, ...file } : own;
  const office = await Office.open(folder, storage, `http://127.0.0.1:${port}/notifications`);
  office.close = async () => {
    receiver.close();
    receiver.closeAllConnections();
    await office.service.close();
    rmSync(folder, { recursive: true, force: true });
  };
  return office;
}
