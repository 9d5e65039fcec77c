import { putEntry } from "../records/rules/stage.ts";
import { beforeEach, describe, expect, it } from "@jest/globals";
import { openReceiver, parseReceiverName } from "../../accounts/receivers.ts";
import { StillReferenced } from "../../core/errors.ts";
import { createSealer } from "../../core/sealing.ts";
import { codeOf, openDomain, RECEIVER, type Domain } from "./open-domain.ts";

const SIGNING_SECRET = `whsec_${Buffer.alloc(32, 3).toString("base64")}`;

let domain: Domain;
beforeEach(async () => {
  domain = await openDomain();
});

const shown = { url: RECEIVER.url, client_id: RECEIVER.client_id, types: RECEIVER.types };

/** The references in the error of a removal, or `false` without an error. */
async function references(removal: Promise<boolean>): Promise<unknown> {
  return removal.then(
    () => false,
    (error: unknown) => error instanceof StillReferenced && error.references.toSorted(),
  );
}

/** The code or the message of a failure; `undefined` without one. */
const endOf = (call: Promise<unknown>): Promise<string | undefined> =>
  call.then(
    () => undefined,
    () => codeOf(call),
  );

describe("services, groups and portals", () => {
  it("can be put, found, listed by key and removed; an unknown key is undefined [D-NOTIFY-1]", async () => {
    const { services, groups, portals } = domain.directory;
    await groups.put("media", { name: "Media", receiver: RECEIVER });
    await portals.put("main", { name: "Main" });
    await services.put("2", {
      name: "Video",
      group: null,
      receiver: { ...RECEIVER, signing_secret: SIGNING_SECRET },
    });
    expect(await services.put("1", { name: "News", group: "media" })).toEqual({
      key: "1",
      name: "News",
      group: "media",
      roles: [],
      receiver: null,
    });
    expect(await groups.find("media")).toEqual({ key: "media", name: "Media", receiver: shown });
    expect(await portals.list()).toEqual({
      items: [{ key: "main", name: "Main", receiver: null }],
      next: null,
    });
    expect((await services.list()).items.map(({ key }) => key)).toEqual(["1", "2"]);
    expect([await services.find("main"), await groups.find("x"), await portals.find("\0")]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    expect([await services.remove("1"), await services.remove("1")]).toEqual([true, false]);
    expect(await codeOf(services.put("1", { name: "News", group: "nowhere" }))).toBe("unknown_reference");
  });

  it("are replaced as a whole by put", async () => {
    const { services, groups } = domain.directory;
    await groups.put("g", { name: "G" });
    await services.put("1", { name: "One", group: "g", receiver: RECEIVER });
    expect(await services.put("1", { name: "Two" })).toEqual({
      key: "1",
      name: "Two",
      group: null,
      roles: [],
      receiver: null,
    });
  });

  it("are created once, even if two do it at the same time", async () => {
    const { services, groups, apis } = domain.directory;
    const api = { name: "A", service: "1", scopes: { read: "Read" } };
    for (const create of [
      () => services.create("1", { name: "One" }),
      () => groups.create("g", { name: "G" }),
      () => apis.create("https://a.example", api),
    ]) {
      const ends = await Promise.all([create(), create()].map(endOf));
      expect(ends).toEqual(expect.arrayContaining(["already_exists", undefined]));
    }
    expect(await codeOf(services.create("2", { name: "Two", group: "none" }))).toBe("unknown_reference");
    expect(await codeOf(services.create("valueOf", { name: "n" }))).toMatch(/^TypeError key: /);
  });

  it("keep what an update leaves out, and lose what it sets to null", async () => {
    const { services, groups } = domain.directory;
    await groups.put("g", { name: "G" });
    await services.put("1", { name: "One", group: "g", roles: ["editor"], receiver: RECEIVER });
    const one = await services.find("1");
    expect(await services.update("1", {})).toEqual(one);
    expect(await services.update("1", { name: "Two" })).toEqual({ ...one, name: "Two" });
    expect(await services.update("1", { receiver: null, group: null, roles: [] })).toEqual({
      key: "1",
      name: "Two",
      group: null,
      roles: [],
      receiver: null,
    });
    const { items } = await domain.storage.audit.list({ action: "service.updated", limit: 10 });
    expect(items).toHaveLength(2);
    expect(await codeOf(services.update("2", { name: "Two" }))).toBe("not_found");
    expect(await codeOf(services.update("1", { group: "none" }))).toBe("unknown_reference");
    expect(await codeOf(groups.update("g", { group: "g" } as never))).toMatch(/^TypeError group: /);
  });

  it("can't be removed while they are referenced; the error names the references [D-ACCOUNT-15]", async () => {
    const { services, groups, portals } = domain.directory;
    await groups.put("g", { name: "G" });
    await portals.put("p", { name: "P" });
    await services.put("1", { name: "One", group: "g" });
    const { client_id } = await domain.clients.register({
      name: "c",
      service: "1",
      redirect_uris: ["https://c/cb"],
    });
    const { sub } = await domain.accounts.import({ email: "a@b", portal: "p", services: { "1": null } });
    expect(await references(services.remove("1"))).toEqual([`account:${sub}`, `client:${client_id}`]);
    expect(await references(groups.remove("g"))).toEqual(["service:1"]);
    expect(await references(portals.remove("p"))).toEqual([`account:${sub}`]);
    await domain.clients.remove(client_id);
    expect(await references(services.remove("1"))).toEqual([`account:${sub}`]);
    await domain.accounts.delete(sub);
    expect(await services.remove("1")).toBe(true);
    expect(await groups.remove("g")).toBe(true);
    expect(await portals.remove("p")).toBe(true);
  });

  it("are never removed during the assignment of an account", async () => {
    for (let round = 0; round < 20; round += 1) {
      await domain.directory.services.put("1", { name: "One" });
      const { sub } = await domain.accounts.create({ email: `u${round}@x` });
      const [assigned, removed] = await Promise.all([
        domain.accounts.assign(sub, "1").then(
          () => true,
          () => false,
        ),
        domain.directory.services.remove("1").then(
          () => true,
          () => false,
        ),
      ]);
      expect(assigned).toBe(!removed);
      await domain.accounts.delete(sub);
    }
  });

  it("have keys of 1 to 64 characters from A-Z a-z 0-9 _ -, but no property names of Object [D-ACCOUNT-15, D-IDENTIFIER-1]", async () => {
    for (const key of ["1", "A-z_9", "x".repeat(64), "Constructor", "__proto"]) {
      await domain.directory.services.put(key, { name: key });
      expect((await domain.directory.services.find(key))?.name).toBe(key);
    }
    for (const key of [
      "",
      "a b",
      "a.b",
      "ä",
      "x".repeat(65),
      "a\0",
      "__proto__",
      "valueOf",
      1,
      null,
      undefined,
    ]) {
      expect(await codeOf(domain.directory.services.put(key as string, { name: "n" }))).toMatch(
        /^TypeError key: (?:must|is)/,
      );
    }
  });
});

describe("a receiver", () => {
  it("has sealed credentials, which are never shown", async () => {
    const receiver = { ...RECEIVER, signing_secret: SIGNING_SECRET };
    await domain.directory.groups.put("g", { name: "G", receiver });
    const kept = await domain.storage.directory.findEntry("group", "g");
    const visible = JSON.stringify([
      kept,
      await domain.directory.groups.find("g"),
      (await domain.directory.groups.list()).items,
    ]);
    expect(visible).not.toContain(RECEIVER.client_secret);
    expect(visible).not.toContain("whsec_");
    expect(openReceiver(domain.sealer, "group", "g", kept!.receiver!)).toEqual(receiver);
    for (const name of ["g", "group:", "groups:g", "group:g:g", "", "group:g\n"]) {
      expect(parseReceiverName(name)).toBeUndefined();
    }
    expect(parseReceiverName("portal:main")).toEqual({ kind: "portal", key: "main" });
  });

  it("can be decrypted only under its own name and key", async () => {
    await domain.directory.services.put("1", { name: "One", receiver: RECEIVER });
    const entry = await domain.storage.directory.findEntry("service", "1");
    const receiver = entry!.receiver!;
    const stranger = createSealer([Buffer.alloc(32, 1).toString("base64")]);
    const keys = expect.objectContaining({ code: "unusable_secrets" });
    expect(() => openReceiver(domain.sealer, "service", "2", receiver)).toThrow(keys);
    expect(() => openReceiver(stranger, "service", "1", receiver)).toThrow(keys);
  });

  it("is written only if something changes, or if no key opens it", async () => {
    const sealedNow = async (): Promise<string | null | undefined> =>
      (await domain.storage.directory.findEntry("service", "1"))?.receiver?.sealed;
    const put = (receiver: typeof RECEIVER): Promise<unknown> =>
      domain.directory.services.put("1", { name: "One", receiver });
    await put(RECEIVER);
    const first = await sealedNow();
    await put({ ...RECEIVER });
    expect(await sealedNow()).toBe(first);
    for (const change of [
      { client_secret: "other" },
      { signing_secret: SIGNING_SECRET },
      { url: "https://x.example/" },
      { types: [] },
    ]) {
      await put(RECEIVER);
      const before = await sealedNow();
      await put({ ...RECEIVER, ...change });
      expect(await sealedNow()).not.toBe(before);
    }
    const entry = await domain.storage.directory.findEntry("service", "1");
    const receiver = { ...shown, sealed: "unreadable" };
    await putEntry(domain.storage, "service", {
      key: "1",
      name: "One",
      group: null,
      ...entry,
      receiver,
    });
    await put(RECEIVER);
    const again = (await domain.storage.directory.findEntry("service", "1"))?.receiver;
    expect(openReceiver(domain.sealer, "service", "1", again!)).toEqual(RECEIVER);
  });

  it("keeps secrets that an update leaves out while the origin of its address stays, and no longer [D-DIRECTORY-1]", async () => {
    const { services } = domain.directory;
    const signed = { ...RECEIVER, signing_secret: SIGNING_SECRET };
    const { origin } = new URL(RECEIVER.url);
    const opened = async () => {
      const { receiver } = (await domain.storage.directory.findEntry("service", "1"))!;
      return openReceiver(domain.sealer, "service", "1", receiver!);
    };
    const secret = "service.receiver.client_secret: is required";
    const signing = "service.receiver.signing_secret: is required";
    const elsewhere = ", because url has another origin";
    const other = "a new secret";
    for (const [stored, changes, then] of [
      [signed, {}, signed],
      [signed, { url: `${origin}/new?x=1` }, { ...signed, url: `${origin}/new?x=1` }],
      [signed, { url: `${origin}:443/` }, { ...signed, url: `${origin}:443/` }],
      [signed, { client_id: "b", client_secret: other }, { ...signed, client_id: "b", client_secret: other }],
      [signed, { signing_secret: null }, RECEIVER],
      [RECEIVER, { url: "https://evil.example/" }, `TypeError ${secret}${elsewhere}`],
      [RECEIVER, { url: `${origin}.evil.example/` }, `TypeError ${secret}${elsewhere}`],
      [RECEIVER, { url: `${origin}:444/` }, `TypeError ${secret}${elsewhere}`],
      [RECEIVER, { url: RECEIVER.url.replace("https", "http") }, `TypeError ${secret}${elsewhere}`],
      [signed, { url: "https://b.example/", client_secret: other }, `TypeError ${signing}${elsewhere}`],
      [signed, { url: "https://b.example/" }, `TypeError ${secret}${elsewhere}; ${signing}${elsewhere}`],
      [
        signed,
        { url: "https://b.example/", client_secret: other, signing_secret: null },
        { ...RECEIVER, url: "https://b.example/", client_secret: other },
      ],
      [undefined, {}, `TypeError ${secret}`],
      [undefined, { client_secret: other }, { ...RECEIVER, client_secret: other }],
    ] as const) {
      await services.put("1", { name: "One", ...(stored && { receiver: stored }) });
      const receiver = { ...shown, ...changes };
      const end = await endOf(services.update("1", { receiver }));
      expect([changes, end ?? (await opened())]).toEqual([changes, then]);
    }
    // A secret that is lost can't stay.
    const receiver = { ...shown, sealed: null };
    await putEntry(domain.storage, "service", { key: "1", name: "One", group: null, receiver });
    expect(await codeOf(services.update("1", { receiver: shown }))).toBe(`TypeError ${secret}`);
    expect(await services.update("1", { name: "Two" })).toMatchObject({ receiver: shown });
  });

  it("is refused with invalid settings: the error names the option, not the value", async () => {
    const wrong: Record<string, readonly unknown[]> = {
      url: [
        "",
        "receiver.example",
        "ftp://a.example/",
        "https://u:p@a.example/",
        "https://a.example/#x",
        "https://a.example/ x",
        "http://a\\b/",
        null,
      ],
      client_id: ["", "a:b", "a\nb", 1],
      client_secret: ["", "a\r\nb", null],
      types: [["UNASSIGNED_FROM_SERVICE"], ["DELETE_ACCOUNT", "DELETE_ACCOUNT"], "DELETE_ACCOUNT", undefined],
      signing_secret: [
        "",
        "secret",
        `whsec_${Buffer.alloc(23).toString("base64")}`,
        `whsec_${Buffer.alloc(65).toString("base64")}`,
        `${SIGNING_SECRET} `,
        `whsec_${"_".repeat(43)}=`,
      ],
      secret: ["x"],
    };
    for (const [option, values] of Object.entries(wrong)) {
      for (const value of values) {
        const message = await codeOf(
          domain.directory.portals.put("p", { name: "P", receiver: { ...RECEIVER, [option]: value } }),
        );
        expect(message).toMatch(/^TypeError portal\.receiver/);
        expect(message).toContain(option);
        expect(message).not.toContain("u:p@");
      }
    }
    for (const settings of [{ name: "" }, { name: "P", group: "g" }, null, "P"]) {
      expect(await codeOf(domain.directory.portals.put("p", settings as never))).toMatch(/^TypeError portal/);
    }
    expect(await domain.directory.portals.list()).toEqual({ items: [], next: null });
    for (const url of ["http://127.0.0.1:4000/p", "https://10.0.0.1/x?y=1"]) {
      await domain.directory.portals.put("p", { name: "P", receiver: { ...RECEIVER, url, types: [] } });
    }
  });
});
