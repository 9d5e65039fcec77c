/**
 * Starts the bundled server as `docs/internals/conformance.md` describes, on free ports, with a stand-in for the conformance
 * suite: its endpoints, and the scripted browser of `suite.json`.
 */
import { readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import { join } from "node:path";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { Browser } from "../../testing/browser/browser.ts";
import { tagsNamed } from "../../testing/browser/html.ts";
import type { Seed } from "../../lib/seed.ts";
import { bodyOf, selfSigned } from "../notifier/peers.ts";
import { ROOT } from "./documents.ts";
import { freePorts, type Running, start } from "./processes.ts";
import { Servers } from "./servers.ts";

/** The addresses in the files, which readers can replace. */
const OP = "https://op.localhost:9443";
const SUITE = "https://localhost.emobix.co.uk:8443";

interface Task {
  readonly task: string;
  readonly optional?: boolean;
  readonly match: string;
  readonly commands?: readonly (readonly (string | number)[])[];
}

interface Automation {
  readonly match: string;
  readonly tasks: readonly Task[];
}

interface SuiteClient {
  readonly client_id: string;
  readonly client_secret: string;
}

/** `suite.json`, with the addresses of this run. */
export interface SuiteFile {
  readonly alias: string;
  readonly server: { readonly discoveryUrl: string };
  readonly client: SuiteClient;
  readonly client2: SuiteClient;
  readonly client_secret_post: SuiteClient;
  readonly browser: readonly Automation[];
  readonly override: Readonly<Record<string, { readonly browser: readonly Automation[] }>>;
}

/**
 * The suite's plans for certification have clients with secrets, and its other modules send no PKCE challenge. So this one is
 * not in the files.
 */
export const PUBLIC_CLIENT = { client_id: "conformance-public" };
/** Where it would be; nothing is sent there. A public client has no https address on loopback. */
const PUBLIC_ORIGIN = "https://suite.example";
export const PUBLIC_CALLBACK: string = `${PUBLIC_ORIGIN}/test/a/sign-in-service/callback`;

/** What the scripted browser saw. */
export interface Page {
  /** The response that reached the suite, by query or form post. */
  readonly callback: Readonly<Record<string, string>> | undefined;
  readonly byPost: boolean;
  /** The last URL of the browser. */
  readonly url: string;
  /** The page of which the suite would want a screenshot. */
  readonly placeholder: string | undefined;
}

/** Like `PatternMatchUtils.simpleMatch` of Spring: `*` matches anything. */
function fits(pattern: string, url: string): boolean {
  const parts = pattern.split("*").map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`));
  return new RegExp(`^${parts.join(".*")}$`).test(url);
}

function file(name: string, replacements: Readonly<Record<string, string>>): string {
  const text = readFileSync(join(ROOT, "examples/conformance", name), "utf8");
  return Object.entries(replacements).reduce((moved, [from, to]) => moved.replaceAll(from, to), text);
}

/** What runs while the stage is open. */
interface Parts {
  readonly servers: Servers;
  readonly origin: string;
  readonly suiteOrigin: string;
  readonly suiteServer: Server;
  readonly tls: Running;
  readonly backchannel: readonly string[];
  /** The certificates that this process trusted before. */
  readonly trusted: readonly string[];
}

export class ConformanceStage {
  /** Where the server was started. */
  readonly servers: Servers;
  readonly suite: SuiteFile;
  /** Request bodies at the back-channel URL of the suite. */
  readonly backchannel: readonly string[];
  readonly #parts: Parts;

  private constructor(parts: Parts) {
    this.#parts = parts;
    this.servers = parts.servers;
    this.backchannel = parts.backchannel;
    this.suite = JSON.parse(
      file("suite.json", { [OP]: parts.origin, [SUITE]: parts.suiteOrigin }),
    ) as SuiteFile;
  }

  /** Starts everything, with one certificate for both names. */
  static async open(): Promise<ConformanceStage> {
    const [http, op, suite] = [await freePorts(), await freePorts(), await freePorts()];
    const [origin, suiteOrigin] = [`https://localhost:${op}`, `https://localhost:${suite}`];
    const servers = new Servers();
    const { key, cert } = selfSigned("localhost");
    const [keyFile, certFile] = [servers.write(key, "key.pem"), servers.write(cert, "cert.pem")];
    const backchannel: string[] = [];
    async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
      const body = await bodyOf(request);
      if (request.url?.endsWith("/backchannel_logout")) backchannel.push(body);
      response.end(`<h1 id="submission_complete">The suite</h1>`);
    }
    const suiteServer = createServer({ key, cert }, (request, response) => void answer(request, response));
    await new Promise<void>((resolve) => void suiteServer.listen(suite, "127.0.0.1", resolve));
    const args = ["--cert", certFile, "--key", keyFile, "--port", `${op}`, "--to", `${http}`];
    const tls = start("examples/conformance/tls.ts", { args, cwd: servers.folder });
    const replacements = { [OP]: origin, [SUITE]: suiteOrigin, "localhost.emobix.co.uk": "localhost" };
    const config = JSON.parse(file("server.json", replacements)) as { readonly seed: Seed };
    const clients = [
      ...(config.seed.clients ?? []),
      { kind: "public", ...PUBLIC_CLIENT, service: "1", redirect_uris: [PUBLIC_CALLBACK] },
    ];
    const text = JSON.stringify({ ...config, seed: { ...config.seed, clients } });
    const bundled = servers.run(["--config", servers.write(text), "--port", `${http}`], {
      env: { NODE_EXTRA_CA_CERTS: certFile },
    });
    await Promise.all([bundled.until(/listening on/), tls.until(/https on port/)]);
    const trusted = getCACertificates();
    setDefaultCACertificates([...trusted, cert]);
    return new ConformanceStage({ servers, origin, suiteOrigin, suiteServer, tls, backchannel, trusted });
  }

  /** A URL of the suite, such as `callback`. */
  at(name: string): string {
    return `${this.#parts.suiteOrigin}/test/a/${this.suite.alias}/${name}`;
  }

  browser(): Browser {
    return new Browser({
      stopAt: [this.#parts.suiteOrigin, PUBLIC_ORIGIN],
      headers: { "accept-language": "en-US" },
    });
  }

  /** Does what the scripted browser of the suite does with this URL in this module. */
  async visit(browser: Browser, module: string, address: string, method = "GET"): Promise<Page> {
    const automations = this.suite.override[module]?.browser ?? this.suite.browser;
    const automation = automations.find(({ match }) => fits(match, address));
    if (automation === undefined) throw new Error(`suite.json has no entry for ${address}`);
    if (method === "GET") await browser.get(address);
    else {
      const url = new URL(address);
      const fields = [...url.searchParams];
      url.search = "";
      // Like a form of another site, so without Lax cookies.
      await browser.get(this.at("callback"));
      await browser.submit({ action: url, method, fields, buttons: [] });
    }
    let placeholder: string | undefined;
    for (const { task, match, optional = false, commands = [] } of automation.tasks) {
      if (!fits(match, this.#url(browser))) {
        if (optional) continue;
        throw new Error(`${module}, ${task}: unexpected ${this.#url(browser)}: ${browser.title}`);
      }
      const typed: Record<string, string> = {};
      for (const [command, kind, target, third, fourth] of commands) {
        if (command === "wait" && kind === "css") {
          if (target !== "h1" || !new RegExp(String(fourth)).test(browser.title))
            throw new Error(`${module}, ${task}: "${browser.title}" is not "${fourth}"`);
          placeholder = tagsNamed(browser.html, "main").length > 0 ? browser.title : undefined;
        } else if (command === "text") typed[String(target)] = String(third);
        else if (command === "click") await this.#click(browser, String(target), typed);
        else if (command !== "wait" || target !== "submission_complete")
          throw new Error(`${module}, ${task}: ${String(command)} is not known here`);
      }
    }
    const landed = this.#landed(browser);
    return {
      callback: landed?.fields,
      byPost: landed?.byPost ?? false,
      url: this.#url(browser),
      placeholder,
    };
  }

  async close(): Promise<void> {
    const { servers, suiteServer, tls, trusted } = this.#parts;
    setDefaultCACertificates([...trusted]);
    await tls.stop("SIGKILL");
    await servers.stop();
    suiteServer.closeAllConnections();
    await new Promise((resolve) => void suiteServer.close(resolve));
  }

  async #click(browser: Browser, selector: string, typed: Record<string, string>): Promise<void> {
    const name = /^button\[name=(\w+)\]$/.exec(selector)?.[1];
    if (name === undefined) {
      await browser.submit(browser.form(Object.keys(typed)[0]), typed);
      return;
    }
    if (!browser.hasForm(name)) return;
    const form = browser.form(name);
    const [, value = ""] = form.buttons.find(([button]) => button === name) ?? [];
    await browser.submit(form, { [name]: value });
  }

  /** The response that reaches the suite: a redirect, or a form that submits itself. */
  #landed(browser: Browser) {
    if (browser.location !== undefined)
      return {
        url: browser.location,
        byPost: false,
        fields: Object.fromEntries(browser.location.searchParams),
      };
    const form = browser
      .forms()
      .find(({ action }) => [this.#parts.suiteOrigin, PUBLIC_ORIGIN].includes(action.origin));
    return form && { url: form.action, byPost: true, fields: Object.fromEntries(form.fields) };
  }

  #url(browser: Browser): string {
    return (this.#landed(browser)?.url ?? browser.url).href;
  }
}
