import { randomBytes } from "node:crypto";
import { describe, expect, it } from "@jest/globals";
import { basic, type RequestParameters, send } from "../../testing/test-client.ts";
import { atBoth, clientAt } from "./clients.ts";
import { ADA, CALLBACK, type KnownClient, NEWS, SHOP, useService } from "./running-service.ts";
import { expectRefusal, expectTokens } from "./token-answers.ts";

const KINDS = ["oauth2", "openid"] as const;

const running = useService();
const news = atBoth(running, NEWS);

/** A client with the given settings. */
async function registered(kind: (typeof KINDS)[number], settings: Partial<KnownClient>) {
  const client: KnownClient = { ...NEWS, client_id: randomBytes(8).toString("hex"), ...settings };
  await running.service.clients.register(client);
  return { client, party: clientAt(running, kind, client) };
}

describe.each(KINDS)("clients at the token endpoint, %s", (kind) => {
  it("accepts Basic and form parameters for every grant", async () => {
    const { client_id, client_secret } = NEWS;
    const { username, password } = ADA;
    const form = { client_id, client_secret };
    const { refresh_token } = await news[kind].signIn(ADA);
    const grants = [
      async () => ({
        grant_type: "authorization_code",
        code: await news[kind].code(ADA),
        redirect_uri: CALLBACK,
      }),
      async () => ({ grant_type: "refresh_token", refresh_token }),
      async () => ({ grant_type: "password", username, password }),
    ];
    for (const grant of grants) {
      expectTokens(await news[kind].token(await grant()));
      expectTokens(await news[kind].token({ ...(await grant()), client_id }));
      expectTokens(await news[kind].token({ ...(await grant()), ...form }, {}));
      const lower = basic(NEWS).replace("Basic", "basic");
      expectTokens(await news[kind].token(await grant(), { authorization: lower }));
      expectRefusal(await news[kind].token({ ...(await grant()), ...form }), "invalid_request");
      expectRefusal(await news[kind].token({ ...(await grant()), client_id: "shop" }), "invalid_request");
    }
  });

  it.each(["news-app", "a_b.c~d", "7d0f1c9e-5c0b-4a55-9d0e-1f6f5c3d2b1a"])(
    "accepts the client_id %j plain and form-encoded, however much of it is encoded [D-TOKEN-6]",
    async (name) => {
      const { client, party } = await registered(kind, { client_id: `${kind}-${name}` });
      const { client_id, client_secret } = client;
      const { refresh_token } = await party.signIn(ADA);
      const encoded = new URLSearchParams([["", client_id]]).toString().slice(1);
      const all = client_id.replace(/[^A-Za-z0-9]/g, (one) => `%${one.charCodeAt(0).toString(16)}`);
      for (const id of [client_id, encoded, all]) {
        const authorization = basic({ client_id: id, client_secret });
        const grant = { grant_type: "refresh_token", refresh_token };
        expectTokens(await party.token(grant, { authorization }));
        expectTokens(await party.token({ ...grant, client_id }, { authorization }));
        expectRefusal(
          await party.token({ ...grant, client_id: "shop" }, { authorization }),
          "invalid_request",
        );
      }
      for (const id of [`${client_id}%`, `${client_id}%00`, `${client_id}%C3`, `${client_id}%20`]) {
        const authorization = basic({ client_id: id, client_secret });
        expectRefusal(
          await party.token({ grant_type: "refresh_token", refresh_token }, { authorization }),
          "invalid_client",
        );
      }
    },
  );

  it("reports wrong credentials", async () => {
    const { refresh_token } = await news[kind].signIn(ADA);
    const grant = { grant_type: "refresh_token", refresh_token };
    const { client_id, client_secret } = NEWS;
    const inForm: RequestParameters[] = [
      {},
      { client_id },
      { client_secret },
      { client_id, client_secret: "" },
      { client_id: "", client_secret },
      { client_id, client_secret: "wrong" },
      { client_id: "nobody", client_secret },
    ];
    for (const form of inForm) {
      const answer = await news[kind].token({ ...grant, ...form }, {});
      expectRefusal(answer, "invalid_client");
      expect(answer.headers.get("www-authenticate")).toBeNull();
      const { username, password } = ADA;
      const asPassword = { grant_type: "password", username, password, ...form };
      expectRefusal(await news[kind].token(asPassword, {}), "invalid_client");
    }
    for (const [id, secret] of [
      [client_id, "wrong"],
      ["nobody", client_secret],
      [client_id, ""],
      ["shop", client_secret],
    ] as const) {
      const authorization = basic({ client_id: id, client_secret: secret });
      const answer = await news[kind].token(grant, { authorization });
      // The shop is registered for standard statuses.
      expectRefusal(answer, "invalid_client", id === "shop" ? 401 : 400);
    }
    for (const authorization of ["Basic", "Basic !", "Bearer x", `Basic ${btoa("no colon")}`, "nonsense"]) {
      expectRefusal(await news[kind].token(grant, { authorization }), "invalid_request");
    }
  });

  it("responds with standard statuses to a client registered for them [D-TOKEN-2]", async () => {
    const shop = clientAt(running, kind, SHOP);
    expectTokens(await shop.exchange(await shop.code(ADA)));
    for (const headers of [{ authorization: basic({ ...SHOP, client_secret: "wrong" }) }, undefined]) {
      const form = headers ? {} : { client_id: SHOP.client_id, client_secret: "wrong" };
      const answer = await shop.token(
        { grant_type: "refresh_token", refresh_token: "x", ...form },
        headers ?? {},
      );
      expectRefusal(answer, "invalid_client", 401);
      expect(answer.headers.get("www-authenticate")).toMatch(/^Basic /);
    }
    expectRefusal(await shop.token({ grant_type: "refresh_token", refresh_token: "x" }), "invalid_grant");
    expectRefusal(await shop.token({ grant_type: "x" }), "unsupported_grant_type");
    expectRefusal(await shop.password(ADA), "unauthorized_client");
  });

  it("serves a grant only to clients registered for it [D-TOKEN-3, D-TOKEN-15]", async () => {
    const { party } = await registered(kind, { password_grant: false });
    expectRefusal(await party.password(ADA), "unauthorized_client");
    const { party: only } = await registered(kind, { grant_types: ["password"], password_grant: true });
    expectRefusal(await only.refresh("x"), "unauthorized_client");
    expectRefusal(await only.exchange("x"), "unauthorized_client");
    const { location } = await only.authorize(ADA);
    expect(location.searchParams.get("error")).toBe("unauthorized_client");
  });

  it("accepts both secrets during a rotation, then only the new one, and none of a disabled or removed client [D-TOKEN-3, D-ACCOUNT-15]", async () => {
    const { clients } = running.service;
    const { client, party } = await registered(kind, {});
    const { client_id, client_secret: first } = client;
    const { refresh_token, access_token } = await party.signIn(ADA);
    const errorWith = async (client_secret: string): Promise<unknown> => {
      const authorization = basic({ client_id, client_secret });
      return (await party.token({ grant_type: "refresh_token", refresh_token }, { authorization })).body[
        "error"
      ];
    };
    const second = (await clients.rotateSecret(client_id, { keepOldFor: 600 })).client_secret;
    expect([await errorWith(first), await errorWith(second)]).toEqual([undefined, undefined]);
    const third = (await clients.rotateSecret(client_id)).client_secret;
    const errors = [await errorWith(first), await errorWith(second), await errorWith(third)];
    expect(errors).toEqual(["invalid_client", "invalid_client", undefined]);
    await clients.disable(client_id);
    expect(await errorWith(third)).toBe("invalid_client");
    expect((await party.userinfo(access_token)).body["error"]).toBe("invalid_token");
    await clients.enable(client_id);
    expect(await errorWith(third)).toBe("invalid_grant");
    expect((await party.userinfo(access_token)).body["error"]).toBe("invalid_token");
    await clients.remove(client_id);
    expect(await errorWith(third)).toBe("invalid_client");
    expect((await party.userinfo(access_token)).body["error"]).toBe("invalid_token");
    await clients.register({ ...client, client_secret: third });
    expect(await errorWith(third)).toBe("invalid_grant");
    expect((await running.service.accounts.find(running.ada.sub))?.services).toHaveProperty(NEWS.service);
  });
  it("always sends a refresh token, even to a client that may not use it [D-TOKEN-12]", async () => {
    const { party } = await registered(kind, { grant_types: ["authorization_code"], password_grant: false });
    const answer = await party.exchange(await party.code(ADA));
    const { refresh_token } = answer.body;
    expectTokens(answer);
    const refresh = await party.token({ grant_type: "refresh_token", refresh_token: String(refresh_token) });
    expectRefusal(refresh, "unauthorized_client");
  });

  it("accepts forms of up to 64 KiB for revocation [D-TOKEN-8]", async () => {
    const type = "application/x-www-form-urlencoded";
    const headers = { authorization: basic(NEWS), "content-type": type };
    const revoke = (bytes: number) =>
      send(`${news[kind].base}/oauth2/revoke`, {
        method: "POST",
        headers,
        body: "token=t".padEnd(bytes, "&"),
      });
    expect((await revoke(65_536)).status).toBe(200);
    expectRefusal(await revoke(65_537), "invalid_request");
  });
});
