/**
 * Passkeys of password managers, and in browsers of before 2025. The credentials are Chromium's own, in the forms in which
 * others answer: 1Password and Bitwarden give an object of their own the prototype of the browser's, KeePassXC a plain one.
 */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { METHODS, MethodsParty, startMethodsService } from "../flows/methods-party.ts";
import { addAuthenticator, heading, setPresence, signIn, useBrowser } from "./chromium.ts";
import { beforeTests } from "../closing.ts";

/** Runs in the page, before its script. Defines `answers`, which changes what the browser answers. */
const ANSWERS = `
  const answers = (change) => {
    const container = CredentialsContainer.prototype;
    for (const call of ["create", "get"]) {
      const own = container[call];
      container[call] = async function (options) { return change(await own.call(this, options)); };
    }
  };
  const members = (object, ...names) =>
    Object.fromEntries(names.filter((name) => object[name] != null).map((name) => [name, object[name]]));
  const read = (object) => members(
    object, "clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle",
  );
`;

/** How else browsers and password managers answer. */
const OTHERS: Readonly<Record<string, string>> = {
  "whose toJSON throws, because the object is not the browser's": `
    answers((made) => {
      const response = Object.setPrototypeOf(read(made.response), Object.getPrototypeOf(made.response));
      const own = { ...members(made, "id", "rawId", "type", "authenticatorAttachment"), response };
      own.getClientExtensionResults = () => ({});
      response.getTransports = () => ["internal", "hybrid"];
      return Object.setPrototypeOf(own, PublicKeyCredential.prototype);
    });`,
  "whose optional members throw, too": `
    answers((made) => {
      const response = Object.setPrototypeOf(read(made.response), Object.getPrototypeOf(made.response));
      const own = { ...members(made, "id", "rawId", "type"), response };
      return Object.setPrototypeOf(own, PublicKeyCredential.prototype);
    });`,
  "that is a plain object, without a toJSON and what is optional": `
    answers((made) => ({ ...members(made, "id", "rawId", "type"), response: read(made.response) }));`,
  "whose members are views of bytes, and null where they are empty": `
    answers((made) => {
      const bytes = Object.entries(read(made.response)).map(([name, value]) => [name, new Uint8Array(value)]);
      const { id, rawId, type } = made;
      const response = { userHandle: null, ...Object.fromEntries(bytes), getTransports: () => null };
      const getClientExtensionResults = () => ({ credProps: { rk: true } });
      return { id, rawId: new Uint8Array(rawId), type, response, authenticatorAttachment: null, getClientExtensionResults };
    });`,
  "in a browser that has no JSON for passkeys (Safari before 18.4, Chrome before 129)": `
    for (const name of ["parseCreationOptionsFromJSON", "parseRequestOptionsFromJSON"]) delete PublicKeyCredential[name];
    delete PublicKeyCredential.prototype.toJSON;`,
  "in a browser that suggests none, and doesn't know whether it can make one": `
    const api = PublicKeyCredential;
    for (const name of Object.getOwnPropertyNames(api)) if (typeof api[name] === "function") delete api[name];
    delete api.prototype.toJSON;`,
};

const browser = useBrowser();
let party: MethodsParty;

const running = beforeTests(() => startMethodsService());
beforeEach(async () => {
  party = await MethodsParty.create(running);
});

describe("a passkey", () => {
  it.each(Object.entries(OTHERS))("%s, is made and signs in", async (_kind, script) => {
    const page = await browser.newPage();
    const authenticator = await addAuthenticator(page);
    await page.addInitScript(`{${ANSWERS}${script}}`);
    await page.goto(`${running.openid}${METHODS}/new-passkey`);
    await signIn(page, party.person);
    await page.getByRole("button", { name: "Send a code" }).click();
    await page.getByLabel("Code").fill(await party.mailedCode());
    await page.getByRole("button", { name: "Create a passkey" }).click();
    await heading(page, "Recovery codes");
    expect((await party.factors())?.passkeys).toHaveLength(1);

    await page.context().clearCookies();
    await setPresence(authenticator, false);
    await page.goto(running.openid + METHODS);
    const button = page.getByRole("button", { name: "Sign in with a passkey" });
    await button.waitFor();
    await setPresence(authenticator, true);
    await button.click();
    await heading(page, "Sign-in methods");
    await page.getByText("Last used").first().waitFor();
  });
});
