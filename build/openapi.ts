/** `docs/interactions.openapi.json`: the JSON interface of the steps, for generators of clients and for tests. */
import { z } from "zod";
import { sampleStep } from "../interactions/samples/steps.ts";
import type {
  DescribedAction,
  DescribedField,
  DescribedMethod,
  DescribedProblem,
  StepDescription,
} from "../interactions/steps/description.ts";
import { STEP_NAMES, type StepName } from "../interactions/steps/step.ts";
import type { Page } from "./page.ts";

/** A type of which every optional member may also be `undefined`, as zod infers it. */
type Loose<T> = T extends readonly (infer Item)[]
  ? readonly Loose<Item>[]
  : T extends object
    ? { [Name in keyof T]: Loose<T[Name]> | (undefined extends T[Name] ? undefined : never) }
    : T;

const text = (description: string) => z.string().describe(description);

const problem: z.ZodType<Loose<DescribedProblem>> = z.strictObject({
  code: text("A stable code of the problem."),
  text: text("A message about the problem, in the language of `locale`."),
  fields: z.array(z.string()).describe("The names of the fields that the problem is about."),
});

const field: z.ZodType<Loose<DescribedField>> = z.strictObject({
  name: text("The member of the body that carries the value."),
  type: z.enum(["text", "email", "password", "date", "select", "checkbox"]),
  label: text("The name of the field, in the language of `locale`."),
  hint: text("What to enter.").optional(),
  autocomplete: text("The value of the HTML attribute `autocomplete`."),
  required: z.boolean(),
  value: text("The content of the field. A checkbox sends it if it is checked. Empty for passwords."),
  checked: z.boolean().optional().describe("Checkboxes only: whether it was checked when it was submitted."),
  options: z
    .array(z.strictObject({ value: z.string(), label: z.string() }))
    .optional()
    .describe("The choices. Choosing none is possible, too."),
  problems: z.array(problem).describe("The problems with this field."),
});

const action: z.ZodType<Loose<DescribedAction>> = z.strictObject({
  name: text(
    "`submit` for the fields; `without-password` for the same with a passkey instead of the password; `resend` for another code; `passkey` for a passkey; `recovery` for a recovery code; `app` for a new app; `renew` for new recovery codes; `remove` for one of `methods`; `allow` and `deny` for consent; `another-account` to sign in to another one; `cancel` to go back to the client; `more-time`, in the last five minutes, for the full time again; or the name of another step.",
  ),
  label: text("What to call it, in the language of `locale`."),
  method: z.enum(["GET", "POST"]).describe("GET for another step, which the answer describes."),
  href: text("Path on the same host."),
});

const descriptors = z.array(
  z.strictObject({
    type: z.literal("public-key"),
    id: z.string(),
    transports: z.array(z.string()).optional(),
  }),
);

const passkeyRequest = z.strictObject({
  challenge: z.string(),
  rpId: z.string(),
  timeout: z.int(),
  userVerification: z.literal("required"),
  allowCredentials: descriptors,
});

const passkeyCreation = z.strictObject({
  challenge: z.string(),
  rp: z.strictObject({ id: z.string(), name: z.string() }),
  user: z.strictObject({ id: z.string(), name: z.string(), displayName: z.string() }),
  pubKeyCredParams: z.array(z.strictObject({ type: z.literal("public-key"), alg: z.int() })),
  timeout: z.int(),
  excludeCredentials: descriptors,
  authenticatorSelection: z.strictObject({
    residentKey: z.literal("required"),
    requireResidentKey: z.literal(true),
    userVerification: z.literal("required"),
  }),
  attestation: z.literal("none"),
});

const method: z.ZodType<Loose<DescribedMethod>> = z.strictObject({
  id: text("Sent as `method` with the action `remove`."),
  kind: z
    .enum(["app", "passkey", "browser"])
    .describe("`browser`: a remembered one, which is not asked for the second factor."),
  label: text("What to call it, in the language of `locale`; a passkey as the person calls it."),
  text: text("What it is, and its times, in the language of `locale`."),
  added_at: z.int().describe("Seconds since the epoch."),
  last_used_at: z.int().nullable().optional().describe("`null`: never. Missing for a browser."),
  expires_at: z.int().optional().describe("Of a browser."),
});

const client = z
  .strictObject({
    client_id: z.string(),
    name: text("The display name."),
    own: z.literal(true).optional().describe("Set when the person signs in to the account pages."),
    logo: text("Path of its logo on this host.").optional(),
    client_uri: text("Its home page.").optional(),
    policy_uri: text("Its privacy policy.").optional(),
    tos_uri: text("Its terms of use.").optional(),
  })
  .describe("The client that the person signs in to.");

/** A step as it is answered. */
const step: z.ZodType<Loose<StepDescription>> = z.strictObject({
  step: z
    .enum([...STEP_NAMES, "undo"])
    .describe("The step that the person is at. `undo` is at `/confirm` only."),
  client,
  title: text("The title of the step, in the language of `locale`."),
  text: text(
    "What to tell besides the title: paragraphs, separated by line breaks. Empty if the title says it all.",
  ),
  account: text("The e-mail address of the account, if it is known.").optional(),
  account_name: text("`continue` only: the name of the person, if the account has one.").optional(),
  email: text("The address that a code was sent to.").optional(),
  username: text(
    '`new-password` only: whose password it is, for a hidden field with `autocomplete="username"` in front of it.',
  ).optional(),
  terms: z
    .strictObject({ url: z.string(), version: z.string(), label: text("For a link to them.") })
    .optional()
    .describe("The terms of use to accept."),
  notice: z
    .strictObject({ code: z.string(), text: z.string() })
    .optional()
    .describe("Something that has just happened."),
  passkey: z
    .strictObject({ publicKey: z.union([passkeyRequest, passkeyCreation]) })
    .optional()
    .describe(
      "`PublicKeyCredentialRequestOptionsJSON`, or at `enrol` `PublicKeyCredentialCreationOptionsJSON`. Call `usePasskey` or `createPasskey` of `sign-in-service/browser` with it, and send what that returns as `credential` with the action `passkey`.",
    ),
  app: z
    .strictObject({ secret: text("In Base32."), uri: text("`otpauth:`, for a QR code.") })
    .optional()
    .describe("`enrol` only: a new authenticator app. Send its code as `code` with the action `app`."),
  recovery_codes: z
    .array(z.string())
    .optional()
    .describe("`recovery-codes` only, in the answer that made them, and never again: show them now."),
  methods: z
    .array(method)
    .optional()
    .describe("`review-methods` only: what the field `method` can be, with its times."),
  fields: z.array(field).describe("The fields to show, in this order."),
  problems: z.array(problem).describe("All problems with what was submitted."),
  shares: z
    .array(z.strictObject({ name: z.string(), label: z.string() }))
    .optional()
    .describe("Consent only: exactly what the client would get."),
  apis: z
    .array(
      z.strictObject({
        identifier: z.string(),
        name: z.string(),
        scopes: z.array(z.strictObject({ name: z.string(), label: z.string() })),
      }),
    )
    .optional()
    .describe("Consent only, if the request names APIs: what the client could do there for the person."),
  actions: z.array(action).describe("The actions that the person can take."),
  again: text(
    "Opaque, for 24 hours. When the address has answered 410, POST it there, without `csrf`, to start the same authorization again. Missing if that is not possible.",
  ).optional(),
  csrf: text("Send it back with each POST."),
  locale: text("The language of the texts."),
  expires_in: z.int().min(0).describe("Seconds until the sign-in expires."),
});

const done = z.strictObject({
  done: z.literal(true),
  location: text("Navigate there: to the client, or to a new sign-in, for example for consent."),
});

const restarted = z.strictObject({
  location: text("Navigate there: the same authorization starts again."),
});

const gone = z.strictObject({
  error: z.literal("gone"),
  error_description: text("Technical, in English."),
  reason: z
    .enum(["expired", "complete", "elsewhere", "no-cookies"])
    .optional()
    .describe("`elsewhere`: it belongs to another browser. Missing at `/confirm`."),
  client: client.optional(),
  again: text("As in a step.").optional(),
});

const error = z.strictObject({
  error: text("`invalid_request`, `forbidden` or `temporarily_unavailable`."),
  error_description: text("Technical, in English."),
});

/** The steps with the action `passkey`. */
const PASSKEY_STEPS: ReadonlySet<StepName> = new Set(["login", "reauthenticate", "second-factor", "enrol"]);

const canAddPasskey = z
  .union([z.boolean(), z.string()])
  .optional()
  .describe(
    "`true` where `PublicKeyCredential.isUserVerifyingPlatformAuthenticatorAvailable()` says so: the step `offer-passkey` may follow.",
  );

/** What a submission of each step contains. */
function submission(name: StepName): z.ZodType {
  const { fields } = sampleStep(name);
  const members = fields.map((each) => {
    const value = z.string().describe(`autocomplete: ${each.autocomplete}`);
    return [each.name, each.required ? value : value.optional()] as const;
  });
  const form = name === "enrol" ? "RegistrationResponseJSON" : "AuthenticationResponseJSON";
  const credential = z.looseObject({}).optional().describe(`\`${form}\`, for \`passkey\`.`);
  return z.looseObject({
    csrf: z.string(),
    ...Object.fromEntries(members),
    ...(PASSKEY_STEPS.has(name) && { credential }),
    ...(name === "login" && { can_add_passkey: canAddPasskey }),
    ...(name === "recovery-codes" && { kept: z.union([z.literal(true), z.literal("true")]) }),
  });
}

function schemaOf(type: z.ZodType): object {
  const { $schema: _dialect, ...schema } = z.toJSONSchema(type);
  return schema;
}

const ref = (name: string): object => ({ $ref: `#/components/schemas/${name}` });
const json = (schema: object): object => ({ "application/json": { schema } });
const answer = (description: string, schema: object, headers?: object): object => ({
  description,
  content: json(schema),
  ...(headers && { headers }),
});

const RETRY = { "Retry-After": { description: "Seconds.", schema: { type: "integer" } } };

const ANSWERS = {
  "410": answer("The sign-in expired, is complete, or belongs to another browser.", ref("Gone")),
  "503": answer("Nothing has changed. Try again.", ref("Error"), RETRY),
};

const show = {
  summary: "Describes the step that the person is at",
  responses: { "200": answer("The step.", ref("Step")), ...ANSWERS },
};

const ACTION = {
  name: "action",
  in: "query",
  schema: {
    type: "string",
    enum: [
      "without-password",
      "resend",
      "allow",
      "deny",
      "another-account",
      "cancel",
      "passkey",
      "recovery",
      "app",
      "renew",
      "remove",
      "more-time",
    ],
  },
  description: "Part of the `href` of an action. Without it, the fields are submitted.",
};

const submit = (bodies: readonly string[], parameters: readonly object[] = [ACTION]): object => ({
  summary: "Submits the step",
  parameters,
  requestBody: { required: true, content: json({ anyOf: bodies.map(ref) }) },
  responses: {
    "200": answer("The next step, the end of this sign-in, or the address at which it starts again.", {
      anyOf: [ref("Step"), ref("Done"), ref("Restarted")],
    }),
    "400": answer("The step with its problems, or an error.", { anyOf: [ref("Step"), ref("Error")] }),
    "403": answer("`Origin`, `Content-Type` or `csrf` is wrong: the description says which.", ref("Error")),
    "429": answer("Too many attempts: the step with its problems.", ref("Step"), RETRY),
    ...ANSWERS,
  },
});

const parameter = (name: string, schema: object): object => ({ name, in: "path", required: true, schema });
const ID = parameter("id", { type: "string" });

/** The name of the schema of a submission: `ConfirmEmailSubmission`. */
function submissionName(name: StepName): string {
  const words = name.split("-").map((word) => word.slice(0, 1).toUpperCase() + word.slice(1));
  return `${words.join("")}Submission`;
}

export const openapiPage: Page = {
  file: "docs/interactions.openapi.json",
  generate() {
    const submissions = STEP_NAMES.map((name) => [submissionName(name), schemaOf(submission(name))] as const);
    const names = submissions.map(([name]) => name);
    const document = {
      openapi: "3.1.0",
      info: {
        title: "The steps of a sign-in",
        version: "1",
        description: "For a UI on the host of the deployment. See docs/pages.md, section 4.",
      },
      servers: [{ url: "/", description: "The base URL of the deployment" }],
      paths: {
        "/interaction/{id}": { parameters: [ID], get: show, post: submit([...names, "RestartSubmission"]) },
        "/interaction/{id}/{step}": {
          parameters: [ID, parameter("step", { type: "string", enum: STEP_NAMES })],
          get: show,
          post: submit([...names, "RestartSubmission"]),
        },
        "/confirm": { get: show, post: submit(["UndoSubmission", submissionName("new-password")], []) },
      },
      components: {
        schemas: {
          Step: schemaOf(step),
          Done: schemaOf(done),
          Error: schemaOf(error),
          Gone: schemaOf(gone),
          Restarted: schemaOf(restarted),
          RestartSubmission: schemaOf(
            z.strictObject({
              again: z.string(),
              username: text("What the person has typed: it becomes the `login_hint`.").optional(),
            }),
          ),
          UndoSubmission: schemaOf(z.looseObject({ csrf: z.string() })),
          ...Object.fromEntries(submissions),
        },
      },
    };
    return `${JSON.stringify(document, undefined, 2)}\n`;
  },
};
