/**
 * `node guarded-logout.ts URL [ALLOWED…]`: sends a logout token to the URL with the `fetch` of a host application, and
 * prints the code of the error, or `sent`. Node's `fetch` uses the guard of oidc-provider only outside Jest's sandbox.
 */
import { Provider } from "oidc-provider";
import type { Configuration } from "../../../config/configuration.ts";
import { backchannelFetch } from "../../../provider/sessions/backchannel-logout.ts";

const [, , url = "", ...allowedReceivers] = process.argv;
const notifications = { allowedReceivers } as unknown as Configuration["notifications"];
const provider = new Provider("http://127.0.0.1", {
  fetch: backchannelFetch({ fetch: globalThis.fetch, notifications } as Configuration),
  features: { backchannelLogout: { enabled: true } },
  clients: [
    {
      client_id: "news",
      client_secret: "a secret",
      redirect_uris: ["https://news.example/callback"],
      backchannel_logout_uri: url,
    },
  ],
});
const news = (await provider.Client.find("news")) as unknown as {
  backchannelLogout(sub: string, sid: string): Promise<void>;
};
try {
  await news.backchannelLogout("somebody", "a session");
  console.log("sent");
} catch (error) {
  console.log((error as { code?: unknown }).code);
}
