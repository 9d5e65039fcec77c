/** What `sign-in-service/browser` exports. It needs nothing else, and works with and without a bundler. */

interface Descriptor {
  readonly type: "public-key";
  readonly id: string;
  readonly transports?: readonly string[];
}

/** How to ask, as in `navigator.credentials.get` and `create`. */
interface Asking {
  /** `conditional`: the browser suggests passkeys in a field with `autocomplete="username webauthn"`. */
  readonly mediation?: "conditional" | "optional" | "required" | "silent";
  /** Ends the request. Abort one that is `conditional` before you ask in another way. */
  readonly signal?: AbortSignal;
}

interface PasskeyJson<Response> {
  readonly id: string;
  readonly rawId: string;
  readonly type: "public-key";
  readonly authenticatorAttachment?: string;
  readonly clientExtensionResults: Readonly<Record<string, unknown>>;
  readonly response: Response;
}

/**
 * Asks the person for a passkey. Works with browsers that have no JSON for passkeys, and with password managers.
 * @param request the `passkey` of a step (`PublicKeyCredentialRequestOptionsJSON`).
 * @returns what to send as `credential` (`AuthenticationResponseJSON`).
 * @throws DOMException `NotAllowedError` if the person cancels or has none; `AbortError` after `signal`.
 */
declare function usePasskey(
  request: Asking & {
    readonly publicKey: {
      readonly challenge: string;
      readonly rpId?: string;
      readonly timeout?: number;
      readonly userVerification?: string;
      readonly allowCredentials?: readonly Descriptor[];
    };
  },
): Promise<
  PasskeyJson<{
    readonly clientDataJSON: string;
    readonly authenticatorData: string;
    readonly signature: string;
    readonly userHandle?: string;
  }>
>;

/**
 * Creates a passkey. Works with browsers that have no JSON for passkeys, and with password managers.
 * @param request the `passkey` of the step `enrol` (`PublicKeyCredentialCreationOptionsJSON`).
 * @returns what to send as `credential` (`RegistrationResponseJSON`).
 * @throws DOMException `NotAllowedError` if the person cancels; `InvalidStateError` if the device has one of the account.
 */
declare function createPasskey(
  request: Asking & {
    readonly publicKey: {
      readonly challenge: string;
      readonly rp: { readonly id?: string; readonly name: string };
      readonly user: { readonly id: string; readonly name: string; readonly displayName: string };
      readonly pubKeyCredParams: readonly { readonly type: "public-key"; readonly alg: number }[];
      readonly timeout?: number;
      readonly excludeCredentials?: readonly Descriptor[];
      readonly authenticatorSelection?: {
        readonly residentKey?: string;
        readonly requireResidentKey?: boolean;
        readonly userVerification?: string;
      };
      readonly attestation?: string;
    };
  },
): Promise<
  PasskeyJson<{
    readonly clientDataJSON: string;
    readonly attestationObject: string;
    readonly transports?: readonly string[];
  }>
>;

export { createPasskey, usePasskey };
