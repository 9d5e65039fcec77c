/** How a person signed in, as ID tokens say it. */

/** `amr` of a sign-in with a password (RFC 8176 section 2). */
export const AMR_PASSWORD: readonly string[] = ["pwd"];

/** `acr` of a sign-in with a password alone. */
export const ACR_PASSWORD = "urn:sign-in-service:acr:password";

/** Every `acr` that a sign-in can have here. */
export const KNOWN_ACRS: readonly string[] = [ACR_PASSWORD];
