/** What an operator sees of a receiver that fails, on the command line. */
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { createSystemClock } from "../../core/clock.ts";
import { createLogger } from "../../core/logger.ts";
import { createNotificationWorker } from "../../notifier/index.ts";
import { openStorage } from "../../records/storage.ts";
import { type Office, openOffice } from "./administration-stage.ts";
import { closing } from "../closing.ts";

let office: Office;

beforeAll(async () => {
  office = closing(await openOffice());
}, 60_000);

describe("the commands about receivers", () => {
  it("show why a delivery fails and when it is tried again, its attempts, and what resume sends", async () => {
    const sub = await office.prepare();
    const answering = createServer(
      (_request, response) => void response.writeHead(503).end("down\n\u001b[2J for\tnow"),
    );
    answering.listen(0, "127.0.0.1");
    await once(answering, "listening");
    const { port } = answering.address() as AddressInfo;
    const url = `http://127.0.0.1:${port}/notify`;
    await office.service.directory.services.put("down", {
      name: "Down",
      receiver: { ...office.receiver, url },
    });
    await office.service.accounts.assign(sub, "down", 1);
    const { port: _port, seed: _seed, ...config } = JSON.parse(readFileSync(office.config, "utf8"));
    const worker = await createNotificationWorker({
      ...config,
      notifications: { ...config.notifications, retryDelays: [600], poll: 0.05 },
      logger: createLogger({ level: "silent" }),
    });
    const failed = new Promise((resolve) => worker.events.once("receiver.failing", resolve));
    await office.service.accounts.update(sub, { surname: "King" });
    await failed;
    await worker.close();
    const run = (...words: string[]) => office.here([...words, "--config", office.config]);
    const list = ["deliveries", "list", "--receiver", "service:down", "--order", "oldest"];
    const [head = "", row = ""] = (await run(...list)).out.split("\n");
    expect(head).toMatch(/ reason +last_error +next_attempt_at$/u);
    expect(row).toMatch(/ attempt_failed +HTTP 503 +\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}Z$/u);
    const [listed] = await office.objects(...list);
    expect(listed).toMatchObject({ last_error: "HTTP 503", reason: "attempt_failed" });
    expect(Math.abs(Number(listed?.["next_attempt_at"]) - Date.now() / 1000 - 600)).toBeLessThan(200);
    const { out } = await run("deliveries", "find", String(listed?.["id"]));
    expect(out).toMatch(/^number +started_at +duration_ms +status +error +answer$/mu);
    expect(out).toMatch(/^1 +\d{4}-.*Z +\d+ +503 +- +down \uFFFD\[2J for now$/mu);
    for (const raw of ["{", "\u001b"]) expect(out).not.toContain(raw);
    const receivers = (await run("receivers", "list")).out.split("\n");
    expect(receivers[0]).toMatch(/ failures +failing_since +last_error +circuit_open_until /u);
    expect(receivers.find((line) => line.startsWith("service:down"))).toMatch(
      / 1 +\d{4}-.*Z +HTTP 503 +- +false/u,
    );
    answering.close();
    const refused = await run("receivers", "test", "service:down");
    expect(refused).toMatchObject({ code: 3, out: expect.stringContaining("ECONNREFUSED") });
    const resume = ["receivers", "resume", "service:down"];
    expect((await run(...resume)).out).toMatch(/^waiting +1$/mu);
    const paused = await run("receivers", "pause", "service:down", "--reason", "maintenance");
    expect(paused.out).toMatch(/^paused +true\nreason +maintenance$/mu);
    expect((await run(...resume)).out).toMatch(/^paused +false\nreason +-$/mu);
    for (const verb of ["resume", "pause", "test"])
      expect(await run("receivers", verb, "service:none")).toMatchObject({
        code: 1,
        err: "This receiver does not exist.\n",
      });
    for (const [verb, ...more] of [["send-now"], ["redrive"], ["discard", "--yes"]] as const)
      expect(await run("deliveries", verb, "none", ...more)).toMatchObject({
        code: 1,
        err: expect.stringMatching(/delivery/u),
      });
    expect(await run("deliveries", "redrive", String(listed?.["id"]))).toMatchObject({
      code: 1,
      err: "Not sent again: it waits already, and can be sent now.\n",
    });
  }, 60_000);

  it("say that they test a receiver by their own configuration, which a server need not share", async () => {
    await office.prepare();
    const file = join(office.folder, "without-addresses.json");
    const { notifications: _allowed, ...config } = JSON.parse(readFileSync(office.config, "utf8"));
    writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
    const tested = await office.here(["receivers", "test", "service:news", "--config", file]);
    expect(tested.code).toBe(1);
    expect(tested.out).toMatch(/^sent +false$/mu);
    expect(tested.err).toMatch(
      /^Nothing was sent from here: .*allowedReceivers.*its own configuration only/u,
    );
  });

  it("stop counting at 10,000, as health and metrics do, so that a look at a large backlog costs no more", async () => {
    await office.prepare();
    const { storage } = JSON.parse(readFileSync(office.config, "utf8")) as { readonly storage: string };
    const clock = createSystemClock();
    const opened = await openStorage({ storage, artifacts: storage, clock });
    for (let first = 0; first < 10_001; first += 1_000) {
      const deliveries = Array.from({ length: Math.min(1_000, 10_001 - first) }, (_each, index) => ({
        id: `many-${first + index}`,
        receiver: "service:asleep",
        sub: "nobody",
        type: "PROFILE_CHANGED",
        payload: "sealed",
        at: 1,
      }));
      await opened.records.transact((tx) => opened.deliveries.add(tx, deliveries));
    }
    await opened.close();
    const { parts } = await office.service.health();
    expect(parts["notifications"]?.detail).toMatch(/^100\d\d\+ waiting/u);
    expect(await office.service.metrics()).toContain(
      'sign_in_deliveries{receiver="service:asleep",state="waiting"} 10000\n',
    );
    const { out } = await office.here(["receivers", "list", "--config", office.config]);
    expect(out).toMatch(/^service:asleep +- +10000\+ /mu);
    const rows = await office.objects("receivers", "list");
    expect(rows.find(({ receiver }) => receiver === "service:asleep")).toMatchObject({ waiting: 10_000 });
  }, 60_000);
});
