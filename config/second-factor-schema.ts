/** What the configuration accepts about second factors: a part of `schema.ts`. */
import type { z } from "zod";
import type { Configuration, PasskeySettings } from "./configuration.ts";
import { defaults } from "./defaults.ts";
import { described, list, section, text, whole } from "./documented-schema.ts";
import { isHostName } from "./value-forms.ts";

const domain = text(253, isHostName, "a domain in lower case, such as `example.com`");

export const passkeys: z.ZodType<PasskeySettings> = section<PasskeySettings>(
  {
    rpId: described(domain, { otherwise: "`cookies.domain`, otherwise the host of the deployments" }),
    previousRpIds: described(list(domain, 0), { form: "a list of different domains" }),
  },
  defaults.interactions.passkeys,
);

/** Browsers delete cookies that live much longer. */
const MAX_DAYS = 90;

export const secondFactor: z.ZodType<Configuration["secondFactor"]> = section<Configuration["secondFactor"]>(
  { remember: described(whole(1, MAX_DAYS), { otherwise: "not offered" }) },
  {},
);
