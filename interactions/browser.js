// Passkeys in a browser (WebAuthn, sections 5.1.3, 5.1.4 and 5.2). `sign-in-service/browser` is this file, and the script of the
// pages begins with it. Browsers before 2025 have neither JSON nor half of the rest, and password managers answer with
// objects of their own: their toJSON may throw, and what is optional may be missing. So each member is read by itself.

const bytesOf = (text) =>
  Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (sign) => sign.charCodeAt(0));
const textOf = (bytes) =>
  btoa(Array.from(new Uint8Array(bytes), (byte) => String.fromCharCode(byte)).join(""))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
// What is missing or can't be read is undefined, and JSON leaves it out.
const optional = (read) => {
  try {
    return read() ?? undefined;
  } catch {
    return undefined;
  }
};
const withBytes = (list = []) => list.map((each) => ({ ...each, id: bytesOf(each.id) }));
const credentialOf = (made, response) => ({
  id: made.id,
  rawId: textOf(made.rawId),
  type: "public-key",
  authenticatorAttachment: optional(() => made.authenticatorAttachment),
  clientExtensionResults: optional(() => made.getClientExtensionResults()) ?? {},
  response: { clientDataJSON: textOf(made.response.clientDataJSON), ...response },
});

export async function usePasskey({ publicKey, ...options }) {
  const challenge = bytesOf(publicKey.challenge);
  const allowCredentials = withBytes(publicKey.allowCredentials);
  const made = await navigator.credentials.get({
    ...options,
    publicKey: { ...publicKey, challenge, allowCredentials },
  });
  const { authenticatorData, signature } = made.response;
  const userHandle = optional(() => made.response.userHandle);
  return credentialOf(made, {
    authenticatorData: textOf(authenticatorData),
    signature: textOf(signature),
    userHandle: userHandle?.byteLength > 0 ? textOf(userHandle) : undefined,
  });
}

export async function createPasskey({ publicKey, ...options }) {
  const challenge = bytesOf(publicKey.challenge);
  const user = { ...publicKey.user, id: bytesOf(publicKey.user.id) };
  const excludeCredentials = withBytes(publicKey.excludeCredentials);
  const made = await navigator.credentials.create({
    ...options,
    publicKey: { ...publicKey, challenge, user, excludeCredentials },
  });
  return credentialOf(made, {
    attestationObject: textOf(made.response.attestationObject),
    transports: optional(() => made.response.getTransports()),
  });
}
