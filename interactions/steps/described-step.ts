/** A step as the JSON interface answers it. The comment of a member is its documentation, also in the OpenAPI document. */
import { z } from "zod";
import { passkeyCreation, passkeyRequest } from "../../accounts/factors/passkeys.ts";
import { allWays } from "../../accounts/ways/ways.ts";
import { section } from "../../config/documented-schema.ts";
import { PROVIDER_PROBLEMS } from "./provider-state.ts";
import { consentApi, signInClient, STEP_NAMES } from "./running-sign-in.ts";

export const describedProblem = section({
  /** A stable code of the problem. */
  code: z.string(),
  /** A message about the problem, in the language of `locale`. */
  text: z.string(),
  /** The names of the fields that the problem is about. */
  fields: z.array(z.string()).readonly(),
});

/** Something that is wrong with what was submitted. */
export interface DescribedProblem extends z.output<typeof describedProblem> {}

export const describedField = section({
  /** The member of the body that carries the value. */
  name: z.string(),
  /** `hidden`, on pages of the account only: send its value back. */
  type: z.enum(["text", "email", "tel", "url", "password", "date", "select", "checkbox", "hidden"]),
  /** The name of the field, in the language of `locale`. */
  label: z.string(),
  /** On pages of the account only: the heading of the section that it stands in. */
  section: z.string().exactOptional(),
  /** What to enter. */
  hint: z.string().exactOptional(),
  /** The value of the HTML attribute `autocomplete`. */
  autocomplete: z.string(),
  required: z.boolean(),
  /** The person has entered it on the page before: show it, and send it back. */
  read_only: z.literal(true).exactOptional(),
  /** The content of the field. A checkbox sends it if it is checked. Empty for passwords. */
  value: z.string(),
  /** Checkboxes only: whether it was checked when it was submitted. */
  checked: z.boolean().exactOptional(),
  /** The choices. Choosing none is possible, too. */
  options: z
    .array(section({ value: z.string(), label: z.string() }))
    .readonly()
    .exactOptional(),
  /** The problems with this field. */
  problems: z.array(describedProblem).readonly(),
});

/** A field to show. */
export interface DescribedField extends z.output<typeof describedField> {}

const action = section({
  /**
   * `submit` for the fields; `without-password` for the same with a passkey instead of the password; `email` for a code by
   * mail; `resend` for another code, `change` for another name; `passkey` for a passkey, with `credential`, and at `enrol` with `name`; `recovery` for a recovery code, with `code`; `app` for a
   * new app, with `code`; `renew` for new recovery codes; `skip` to go on without linking; `remove` for one of `methods`; `later` to go on without the passkey that
   * was offered, `never` to not be asked again; `provider` to go to a provider, with its key as `provider`: the answer has the address;
   * `another-way` to go on without a provider; `allow` and `deny` for consent; `another-account` to sign in to another one; `cancel`
   * to go back to the client without signing in; `more-time`, in the last five minutes, for the full time again; or the name of
   * another step.
   */
  name: z.string(),
  /** What to call it, in the language of `locale`. */
  label: z.string(),
  /** GET for another step, which the answer describes. */
  method: z.enum(["GET", "POST"]),
  /** Path on the same host. */
  href: z.string(),
});

/** Something that the person can do. */
export interface DescribedAction extends z.output<typeof action> {}

const method = section({
  /** Sent as `method` with the action `remove`. */
  id: z.string(),
  /** `browser`: a remembered one, which is not asked for the second factor. */
  kind: z.enum([
    ...allWays().flatMap(({ kind, methods }) => (methods === undefined ? [] : [kind])),
    "browser",
  ]),
  /** What to call it, in the language of `locale`; a passkey as the person calls it. */
  label: z.string(),
  /** What it is, and its times, in the language of `locale`. */
  text: z.string(),
  /** Seconds since the epoch. */
  added_at: z.int(),
  /** Seconds since the epoch. `null`: never. Missing for a browser. */
  last_used_at: z.int().nullable().exactOptional(),
  /** Of a browser, in seconds since the epoch. */
  expires_at: z.int().exactOptional(),
});

/** A way to sign in besides the password, or a browser that is spared the second factor. */
export interface DescribedMethod extends z.output<typeof method> {}

export const step = section({
  /** The step that the person is at. `undo` is at `{base}/confirm` only: it brings back the earlier address of an account. */
  step: z.enum([...STEP_NAMES, "undo"]),
  /** The client that the person signs in to. */
  client: signInClient,
  /** The title of the step, in the language of `locale`. */
  title: z.string(),
  /** Text below the title, in paragraphs separated by line breaks. Empty if there is none. */
  text: z.string(),
  /** The e-mail address of the account, if it is known. */
  account: z.string().exactOptional(),
  /** `continue` and `provider-link` only: the name of the person, if the account has one. */
  account_name: z.string().exactOptional(),
  /** `provider-register`, `provider-known`, `provider-confirm` and `provider-link` only: who came back from a provider. */
  came_back: section({
    /** The key of the provider. */
    key: z.string(),
    /** Whose mark and colors it has: `openid` is any other provider. */
    preset: z.enum(["openid", "google", "microsoft", "apple", "github"]),
    /** The name of the provider, in the language of `locale`. */
    name: z.string(),
    /** The person's address there, if the provider says it. */
    email: z.string().exactOptional(),
  }).exactOptional(),
  /** The address that a code was sent to. */
  email: z.string().exactOptional(),
  /**
   * `email-code`: the name that a code was asked for with, as typed, to show it. `new-password` and `provider-known`: whose password
   * it is. Put it into a hidden field with `autocomplete="username"` in front of the password, so that password managers store both.
   */
  username: z.string().exactOptional(),
  /** The terms of use to accept. */
  terms: section({
    url: z.string(),
    version: z.string(),
    /** For a link to them. */
    label: z.string(),
  }).exactOptional(),
  /** Something that has just happened. */
  notice: section({ code: z.string(), text: z.string() }).exactOptional(),
  /**
   * `PublicKeyCredentialRequestOptionsJSON`, or at `enrol` `PublicKeyCredentialCreationOptionsJSON`. Call `usePasskey` or
   * `createPasskey` of `sign-in-service/browser` with it, and send what that returns as `credential` with the action `passkey`.
   */
  passkey: section({ publicKey: z.union([passkeyRequest, passkeyCreation]) }).exactOptional(),
  /** `enrol` only: a new authenticator app. Send its code as `code` with the action `app`. */
  app: section({
    /** In Base32. */
    secret: z.string(),
    /** `otpauth:`, for a QR code. */
    uri: z.string(),
  }).exactOptional(),
  /** `recovery-codes` only, in the answer that made them, and never again: show them now. */
  recovery_codes: z.array(z.string()).readonly().exactOptional(),
  /** `review-methods` only: what the field `method` can be, with its times. */
  methods: z.array(method).readonly().exactOptional(),
  /**
   * The providers that the person can sign in with, in the order to show them. At `login` and `reauthenticate`, the action `provider` sends
   * one's key as `provider`, and answers with the address to go to. After the name was asked for first: the one of its domain. At
   * `provider`: the one that the client has named, where `submit` goes.
   */
  providers: z
    .array(
      section({
        key: z.string(),
        /** Its name, in the language of `locale`. */
        name: z.string(),
        /** What to call its button, in the language of `locale`. */
        label: z.string(),
        /** `openid`: any other provider. */
        preset: z.enum(["openid", "google", "microsoft", "apple", "github"]),
        /** Set for the one that this browser used last: show it first. */
        last: z.literal(true).exactOptional(),
      }),
    )
    .readonly()
    .exactOptional(),
  /** `provider-problem` only: the provider, and why nobody came in by it. */
  provider: section({
    key: z.string(),
    /** Its name, in the language of `locale`. */
    name: z.string(),
    /**
     * `slow`: it has not answered; `unusable`: its answer can't be used; `not-here`: the account there opens none here;
     * `not-among`: it is none of those that this service lets in; `of-another`: it is linked to another account.
     */
    problem: z.enum(PROVIDER_PROBLEMS).exactOptional(),
  }).exactOptional(),
  /** The fields to show, in this order. */
  fields: z.array(describedField).readonly(),
  /** All problems with what was submitted. */
  problems: z.array(describedProblem).readonly(),
  /** Consent only: exactly what the client would get. */
  shares: z
    .array(section({ name: z.string(), label: z.string() }))
    .readonly()
    .exactOptional(),
  /** Consent only, if the request names APIs: what the client could do there for the person. */
  apis: z.array(consentApi).readonly().exactOptional(),
  /** The actions that the person can take. */
  actions: z.array(action).readonly(),
  /**
   * Opaque, for 24 hours. When the address has answered 410, POST it there, without `csrf`, to start the same authorization again.
   * Missing if that is not possible.
   */
  again: z.string().exactOptional(),
  /** Unguessable, bound to this sign-in. Send it back with each POST. */
  csrf: z.string(),
  /** The language of the texts. */
  locale: z.string(),
  /** Seconds until the sign-in expires. */
  expires_in: z.int().min(0),
});

/** A step as the JSON interface answers it. */
export interface StepDescription extends z.output<typeof step> {}
