import type { Adapter } from "oidc-provider";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { artifactKey } from "../../provider/adapter.ts";
import type { Storage } from "../../records/storage.ts";
import { type ManualClock, put } from "../records/rules/stage.ts";
import { HOUR, openOidcStage, type OidcStage } from "./stage.ts";

let clock: ManualClock;
let storage: Storage;
let adapter: (model: string) => Adapter;
let stored: OidcStage["stored"];

beforeEach(async () => {
  ({ clock, storage, adapter, stored } = await openOidcStage());
});

afterEach(() => storage.close());

describe("the adapter outside a request", () => {
  it("commits each write immediately", async () => {
    await adapter("Session").upsert("id", { uid: "u", accountId: "a" }, HOUR);
    await expect(stored("Session", "id")).resolves.toMatchObject({
      uid: "u",
      accountId: "a",
      expiresAt: clock.now() + HOUR * 1000,
    });
    await adapter("Session").destroy("id");
    await expect(stored("Session", "id")).resolves.toBeUndefined();
  });

  it("stores only the hash of the identifier of a token, session or interaction [D-TOKEN-20]", async () => {
    await adapter("Grant").upsert("secret-grant", {}, HOUR);
    const cookie = "the-session-of-the-browser";
    await adapter("AccessToken").upsert(
      "secret-token",
      { jti: "secret-token", grantId: "secret-grant" },
      HOUR,
    );
    await adapter("Interaction").upsert(
      "secret-uid",
      {
        returnTo: "https://login.example/oauth2/authorize/secret-uid",
        session: { uid: "s", cookie, accountId: "a" },
      },
      HOUR,
    );
    const found = await Promise.all([
      stored("AccessToken", "secret-token"),
      stored("Interaction", "secret-uid"),
    ]);
    expect(found).toEqual([expect.anything(), expect.anything()]);
    const text = JSON.stringify(found);
    expect(text).not.toMatch(/secret-token|secret-uid|the-session-of-the-browser/);
    await expect(adapter("AccessToken").find("secret-token")).resolves.toMatchObject({ jti: "secret-token" });
    await expect(adapter("Interaction").find("secret-uid")).resolves.toMatchObject({
      jti: "secret-uid",
      returnTo: "https://login.example/oauth2/authorize/secret-uid",
      session: { uid: "s", accountId: "a" },
    });
  });

  it("lets an artifact expire at the time in its payload, else after its lifetime", async () => {
    const exp = Math.floor(clock.now() / 1000) + 5;
    await adapter("RefreshToken").upsert("sliding", { exp }, HOUR);
    await expect(stored("RefreshToken", "sliding")).resolves.toMatchObject({ expiresAt: exp * 1000 });
    clock.advance(5_000);
    await expect(adapter("RefreshToken").find("sliding")).resolves.toBeUndefined();
  });

  it("takes a session without the time of its sign-in for ended, unless nobody is signed in", async () => {
    const loginTs = Math.floor(clock.now() / 1000);
    await adapter("Session").upsert("nobody's", { uid: "n" }, HOUR);
    await adapter("Session").upsert("whole", { uid: "w", accountId: "a", loginTs }, HOUR);
    await adapter("Session").upsert("broken", { uid: "b", accountId: "a" }, HOUR);
    const found = ["nobody's", "whole", "broken"].map((id) => adapter("Session").find(id));
    await expect(Promise.all(found)).resolves.toMatchObject([{ uid: "n" }, { uid: "w" }, undefined]);
    await expect(adapter("Session").findByUid("b")).resolves.toBeUndefined();
  });

  it("does not look up impossible identifiers, and reads clients from the directory", async () => {
    for (const id of ["", "a b", "a\0b", "ä", "x".repeat(256)]) {
      const planted = {
        model: "AccessToken",
        key: artifactKey(id),
        payload: {},
        expiresAt: clock.now() + 1_000,
      };
      await put({ storage, clock }, planted);
      await expect(adapter("AccessToken").find(id)).resolves.toBeUndefined();
    }
    await expect(adapter("Client").find("known")).resolves.toEqual({ client_id: "known" });
    await expect(adapter("Client").find("unknown")).resolves.toBeUndefined();
    await expect(adapter("DeviceCode").findByUserCode("code")).resolves.toBeUndefined();
  });
});
