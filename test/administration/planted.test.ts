/** Somebody adds an operation: a row, its comment and its function. It is in every view, and in the documents. */
import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import Koa from "koa";
import { expect, it } from "@jest/globals";
import { z } from "zod";
import { exactly } from "../../accounts/arguments.ts";
import { facade, operation, operations } from "../../accounts/operations/operation.ts";
import { OPERATION_TEXTS } from "../../administration/operation-texts.ts";
import { CALLS, TABLES } from "../../administration/tables.ts";
import { atEnd } from "../closing.ts";

const own = operations("group", {
  paint: operation({
    effect: "verb",
    target: ["key"],
    input: exactly({ color: z.enum(["red", "blue"], { error: "must be red or blue" }) }),
    output: exactly({ key: z.string(), color: z.string() }),
    role: "support",
    limited: false,
    confirm: "none",
    audit: ["group.updated"],
    errors: [],
    columns: [],
    example: { target: ["media"], input: { color: "red" } },
  }),
});
const { paint } = facade(own, {
  paint: async ({ target: [key], input: { color } }) => ({ key, color }),
});

// The row, its function, and what `npm run docs` makes of its comment.
Object.assign(TABLES.groups.rows, own.rows);
const { groups } = CALLS;
Object.assign(CALLS, { groups: (...args: Parameters<typeof groups>) => ({ ...groups(...args), paint }) });
Object.assign(OPERATION_TEXTS.operations, {
  "groups.paint": { summary: "Paints a group.", members: { color: "The color." } },
});

it("is a command with completion, an address, a call of the typed client, and documented [D-ADM-296]", async () => {
  // Loaded now, because they make their views of the rows when they are loaded.
  const { openOffice } = await import("../cli/administration-stage.ts");
  const { createAdministrationClient } = await import("../../administration/index.ts");
  const { openApiDocument } = await import("../../administration/open-api.ts");
  const { COMMANDS } = await import("../../cli/commands.ts");
  const { offersFor } = await import("../../cli/completion.ts");
  const { commandPages } = await import("../../build/command-line.ts");
  const { operationsPage } = await import("../../build/administration.ts");
  const office = await openOffice();
  atEnd(() => office.close());
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  atEnd(() => server.close().closeAllConnections());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const answer = new Koa().use(office.service.administration({ url })).callback();
  server.on("request", (request, response) => void answer(request, response));
  const tokenFor = async (role: "viewer" | "support"): Promise<string> =>
    (await office.service.tokens.create({ role, expires: 3_600 })).token;

  const painted = { key: "media", color: "red" };
  await expect(office.objects("groups", "paint", "media", "--color", "red")).resolves.toEqual([painted]);
  const help = await office.here(["groups", "paint", "--help"]);
  expect(help.out).toContain("Paints a group.");
  expect(offersFor(COMMANDS, ["groups", "p"])).toContainEqual(["paint", "paints a group"]);
  expect(offersFor(COMMANDS, ["groups", "paint", "media", "--color", "b"])).toEqual([["blue", ""]]);
  for (const [role, status] of [
    ["viewer", 403],
    ["support", 200],
  ] as const) {
    const sent = await fetch(`${url}/v1/groups/media/paint`, {
      method: "POST",
      headers: { Authorization: `Bearer ${await tokenFor(role)}`, "Content-Type": "application/json" },
      body: JSON.stringify({ color: "red" }),
    });
    expect([role, sent.status]).toEqual([role, status]);
    if (status === 200) expect(await sent.json()).toEqual(painted);
  }
  const client = createAdministrationClient({ url, token: await tokenFor("support") }).groups;
  const call = Reflect.get(client, "paint") as (key: string, input: object) => Promise<unknown>;
  expect(await call("media", { color: "red" })).toEqual(painted);
  await expect(call("media", { color: "pink" })).rejects.toMatchObject({ errors: [{ pointer: "/color" }] });
  expect(openApiDocument()["paths"]).toMatchObject({
    "/v1/groups/{key}/paint": {
      post: { operationId: "groups.paint", "x-role": "support", summary: "Paints a group" },
    },
  });
  expect((await commandPages.generateAll()).get("groups.md")).toContain(
    "\n## groups paint\n\nPaints a group.\n\n```sh\nsign-in-service groups paint media ",
  );
  expect(await operationsPage.generate()).toContain(
    "\n| `groups.paint` | `POST /v1/groups/{key}/paint` | yes | support |",
  );
}, 60_000);
