/** The configuration as a caller writes it. */
import type { z } from "zod";
import type { configurationSchema } from "./schema.ts";

/** The argument of `createSignInService`. Unknown keys and wrong values are errors, all reported together. */
export interface SignInServiceConfig extends z.input<typeof configurationSchema> {}

/** The two base URLs. At least one is required. */
export type DeploymentsInput = SignInServiceConfig["deployments"];
export type NotificationsInput = NonNullable<SignInServiceConfig["notifications"]>;
export type MailInput = NonNullable<SignInServiceConfig["mail"]>;
