/** The keys of a configuration file that belong to the bundled server, not to the service. */
import { z } from "zod";
import { described } from "./documented-schema.ts";
import { isListenAddress, LISTEN_FORM } from "./value-forms.ts";

/** The default port of the server. The demo also uses the three ports after it. */
export const DEFAULT_PORT = 3000;

/** `port`, `host` and `seed`. */
export const fileSchema: z.ZodObject<{
  port: z.ZodType<number | undefined>;
  host: z.ZodType<string | undefined>;
  seed: z.ZodType;
}> = z.object({
  port: described(z.int().min(0).max(65_535).optional(), {
    form: "a whole number from 0 to 65535",
    description:
      "Port to listen on. `--port` and the environment variable `PORT` override it. 0 chooses a free port",
    otherwise: `\`${DEFAULT_PORT}\``,
    restart: true,
  }),
  host: described(z.string().max(253).refine(isListenAddress).optional(), {
    form: LISTEN_FORM,
    description:
      "Address to listen on. `--host` and the environment variable `HOST` override it. `0.0.0.0` and `::` are all addresses",
    otherwise: "the loopback address if all base URLs are on loopback, otherwise all addresses",
    restart: true,
  }),
  seed: described(z.unknown(), {
    form: "an object",
    description: "Applied to the storage at every start",
    otherwise: "none",
    holds: "secret",
  }),
});
