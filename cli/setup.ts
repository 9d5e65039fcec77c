/** `init` and `doctor`: the first command, and the one that explains why others fail. */
import { DEFAULT_STORAGE, usualAddress } from "../config/storage-address.ts";
import type { Command } from "./program/command.ts";
import { SERVICE_OPTIONS } from "./program/on-service.ts";

export const setupCommands: readonly Command[] = [
  {
    words: ["init"],
    summary: "writes a configuration",
    about: `Asks for the address and the name of the service, the proxies in front of it, the storage and the mail server, and writes them to a file
that only you can read. The file is checked in the same way as by the server before it is written. For a storage other than SQLite, it also
gets new keys.secrets; for SQLite, the server creates them at its first start, in a file beside the database.

env:NAME reads an address from an environment variable, so that its password does not appear in the list of processes.`,
    options: [
      {
        form: "--config FILE",
        about: "the file to write; default: SIGN_IN_CONFIG, then sign-in.json in this folder",
      },
      {
        form: "--url URL",
        about: "the address of the service as browsers see it; default: http://localhost:3000",
      },
      {
        form: "--name NAME",
        about: "the name of the service, on its pages and in its mail; default with https: its host",
      },
      {
        form: "--proxy PROXIES",
        about: "how many proxies are in front of it, or their addresses; default with https: 1",
      },
      {
        form: "--storage ADDRESS",
        about: `${usualAddress("storage")}; default: ${DEFAULT_STORAGE}`,
      },
      { form: "--mail ADDRESS", about: "the mail server: smtp://… or smtps://…; default: none" },
      { form: "--mail-from SENDER", about: "the sender of the mail; default: no-reply@ and the host" },
      { form: "--overwrite", about: "replaces the file, and keeps the keys in it" },
      { form: "--yes", about: "asks nothing: what is not given gets its default" },
      { form: "--json", about: "prints one JSON object" },
    ],
    examples: ["init", "init --yes --url https://login.example --storage env:DATABASE_URL"],
    load: async () => (await import("./init.ts")).runInit,
  },
  {
    words: ["doctor"],
    summary: "finds problems, and says how to fix them",
    about: `Checks the configuration, the modes of files, secrets, the storage and its clocks, Redis, and connections to receivers, to which
nothing is sent. With --url, it also checks a running server as browsers and clients reach it: base URLs, cookies, redirects,
body parsers and the clock. If the address belongs to no deployment, it bypasses the proxy, with the Host of the deployment.
With --against, it says before an upgrade whether the storage and the configuration can go to that version.

It changes nothing. Exits with 0 if there are warnings only, 1 if there are problems, 2 if the configuration can't be used, and
3 if the storage or the server can't be reached.`,
    options: [
      ...SERVICE_OPTIONS,
      { form: "--url URL", about: "a running server, such as https://login.example" },
      {
        form: "--against NEW",
        about: "another version to upgrade to: the folder of its package, or its docs/formats.json",
      },
    ],
    examples: [
      "doctor",
      "doctor --url https://login.example",
      "doctor --against ../new/node_modules/sign-in-service",
    ],
    load: async () => (await import("./doctor.ts")).runDoctor,
  },
];
