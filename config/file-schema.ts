/** The keys of a configuration file that are not the service's: those of the process around it. */
import { z } from "zod";
import { described } from "./documented-schema.ts";

/** The port of a server without another one. The demo uses the two ports after it as well. */
export const DEFAULT_PORT = 3000;

/** `port` and `seed`. */
export const fileSchema: z.ZodObject<{ port: z.ZodType<number | undefined>; seed: z.ZodType }> = z.object({
  port: described(z.int().min(0).max(65_535).optional(), {
    form: "a whole number from 0 to 65535",
    description:
      "Port to listen on. `--port` and the environment variable `PORT` override it. 0 chooses a free port",
    otherwise: `\`${DEFAULT_PORT}\``,
  }),
  seed: described(z.unknown(), {
    form: "an object",
    description: "Applied to the storage at every start",
    otherwise: "none",
    holds: "secret",
  }),
});
