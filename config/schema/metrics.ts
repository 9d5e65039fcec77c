/** `metrics`. */
import { z } from "zod";
import type { MetricsSettings } from "../configuration.ts";
import { defaults } from "../defaults.ts";
import type { MetricsInput } from "../input.ts";
import { isHostName, isNetwork } from "../networks.ts";
import { isBearerToken } from "../value-forms.ts";
import { described, optional, text, writtenAs, type Written } from "./parts.ts";

const hostForm = "an IP address or a host name in lower case";
/** Shorter ones can be guessed: nothing counts the tries. */
const LEAST_TOKEN = 16;
const tokenForm = `a text of ${LEAST_TOKEN} to 512 letters, digits and \`-._~+/\`, with \`=\` only at its end`;

/** `metrics`. */
export const metricsSchema: z.ZodType<MetricsSettings, Written<MetricsInput>> = writtenAs<MetricsInput>()(
  z.strictObject({
    port: optional(z.int().min(0).max(65_535), {
      form: "a whole number from 0 to 65535",
      description:
        "A port of its own for `/metrics` and the detailed `/health`; 0 is any free port, `--metrics-port` wins",
      otherwise: "none",
    }),
    host: described(
      text(253, (host) => isHostName(host) || (isNetwork(host) && !host.includes("/")), hostForm).default(
        defaults.metrics.host,
      ),
      { form: hostForm, description: "The address that this port is opened on" },
    ),
    token: optional(
      text(512, (token) => token.length >= LEAST_TOKEN && isBearerToken(token), tokenForm),
      {
        form: tokenForm,
        description:
          "Sent as a Bearer token it opens `/metrics` on the public port too; the port of its own then asks for it. A secret",
        otherwise: "none: no `/metrics` on the public port",
      },
    ),
  }),
);
