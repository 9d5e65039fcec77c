/** `serve` and `worker`: the processes of the service. */
import type { Command, CommandOption } from "./program/command.ts";

const CONFIG: CommandOption = {
  form: "--config FILE",
  about:
    "the JSON configuration, with port, host and seed; default: SIGN_IN_CONFIG, then sign-in.json in this folder",
};

const METRICS_PORT: CommandOption = {
  form: "--metrics-port N",
  about: "a separate port for health and metrics; overrides metrics.port",
};

export const processCommands: readonly Command[] = [
  {
    words: ["serve"],
    summary: "runs the server",
    about: `Runs until SIGTERM or Ctrl+C, which finishes running requests and exits with 0. A second signal ends it immediately.
SIGHUP reads the configuration again without losing a request.

With --demo and without --config, runs a demo at http://localhost:3000 with one user, a client on the next port, and a
receiver on the port after that. The receiver prints each notification to this terminal.

Environment: PORT, HOST, LOG_LEVEL.`,
    options: [
      CONFIG,
      { form: "--demo", about: "runs the demo, unless there is a --config" },
      {
        form: "--port N",
        about: "port to listen on; the demo also uses the three ports after it; 0 for free ports",
      },
      {
        form: "--host HOST",
        about:
          "address to listen on; default: the loopback address if all URLs are on loopback, otherwise all addresses",
      },
      METRICS_PORT,
      { form: "--no-client", about: "demo: does not start the client" },
      { form: "--no-receiver", about: "demo: does not start the receiver, so that its notifications wait" },
      {
        form: "--receiver-fail N",
        about:
          "demo: the receiver fails the first N notifications; default: all, with one of the options below",
      },
      {
        form: "--receiver-status S",
        about: "demo: the receiver fails by responding with this status; default: 503",
      },
      {
        form: "--receiver-slow SECONDS",
        about: "demo: the receiver waits before it responds or fails",
      },
      { form: "--receiver-close", about: "demo: the receiver fails by closing the connection" },
    ],
    examples: ["serve", "serve --demo"],
    load: async () => (await import("./server/serve.ts")).serve,
  },
  {
    words: ["worker"],
    summary: "delivers notifications and mail in a separate process",
    about: `Delivers what servers with the same storage have stored. With notifications.worker: false, the servers only store.
Runs until SIGTERM or Ctrl+C, which finishes running deliveries and exits with 0. SIGHUP reads the configuration again.

Environment: LOG_LEVEL.`,
    options: [CONFIG, METRICS_PORT],
    examples: ["worker --metrics-port 9465"],
    load: async () => (await import("./server/worker.ts")).worker,
  },
];
