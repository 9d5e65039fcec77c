import { EventEmitter } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { createCodeExchanges } from "../../../provider/grants/code-grant.ts";
import type { Artifact } from "../../../records/artifacts/artifact.ts";
import { ManualClock } from "../../records/rules/stage.ts";

const newResponse = (): ServerResponse => new EventEmitter() as ServerResponse;

describe("concurrent exchanges of one code", () => {
  let clock: ManualClock;
  let exchanges: ReturnType<typeof createCodeExchanges>;
  /** The response of the store. */
  let sinceAnswer: () => Promise<number | undefined>;
  beforeEach(() => {
    clock = new ManualClock(0);
    exchanges = createCodeExchanges({ sinceAnswer: () => sinceAnswer() }, clock);
    sinceAnswer = () => Promise.reject(new Error("nobody has to ask the store"));
  });
  const code: Artifact = { model: "AuthorizationCode", key: "code", payload: {}, expiresAt: 60_000 };
  const consumed = { ...code, consumedAt: 1 };
  const begin = (found: Artifact, res = newResponse(), since = clock.now()): Promise<boolean> =>
    exchanges.begin(found, res, since);

  it("are a tie until one of them has a response [D-TOKEN-13]", async () => {
    const first = newResponse();
    await expect(begin(code, first)).resolves.toBe(true);
    clock.advance(50);
    await expect(begin(consumed)).resolves.toBe(true);
    first.emit("close");
    clock.advance(50);
    await expect(begin(consumed)).resolves.toBe(true);
  });

  it("are a tie if they started before the last response [D-TOKEN-13]", async () => {
    const first = newResponse();
    await begin(code, first);
    clock.advance(50);
    first.emit("close");
    const answered = clock.now();
    clock.advance(50);
    await expect(begin(consumed, newResponse(), answered)).resolves.toBe(true);
  });

  it("follow the store after the response, independently of other codes [D-TOKEN-13]", async () => {
    const first = newResponse();
    await begin(code, first);
    await begin({ ...code, key: "other" });
    clock.advance(10);
    first.emit("close");
    clock.advance(1);
    sinceAnswer = () => Promise.resolve(1.5);
    await expect(begin(consumed)).resolves.toBe(false);
  });

  it("are replays after the response if one of them has used the code, whatever the store knows [D-TOKEN-13]", async () => {
    const first = newResponse();
    await begin(code, first);
    exchanges.used(code);
    first.emit("close");
    clock.advance(1);
    await expect(begin(consumed)).resolves.toBe(false);
    clock.advance(4_000);
    await expect(begin(consumed)).resolves.toBe(false);
  });

  it("at other processes are a tie if this one started before the response [D-TOKEN-13]", async () => {
    for (const [waited, since, isTie] of [
      [0, -4999, true],
      [0, -0.001, true],
      [0, 0.001, false],
      [3, 3, true],
      [3, 3.001, false],
      [0, 600_000, false],
      [0, undefined, false],
    ] as const) {
      sinceAnswer = () => Promise.resolve(since);
      const found = { ...consumed, key: `${waited} ${since}` };
      await expect(begin(found, newResponse(), clock.now() - waited)).resolves.toBe(isTie);
    }
  });

  it("that overlap a replay are replays [D-TOKEN-13]", async () => {
    sinceAnswer = () => Promise.resolve(1);
    await expect(begin(consumed)).resolves.toBe(false);
    sinceAnswer = () => Promise.resolve(-1);
    await expect(begin(consumed)).resolves.toBe(false);
  });

  it("can't stay a tie for more than five seconds through repeated requests [D-TOKEN-13]", async () => {
    await begin(code);
    sinceAnswer = () => Promise.resolve(clock.now());
    clock.advance(4999);
    await expect(begin(consumed)).resolves.toBe(true);
    clock.advance(1);
    await expect(begin(consumed)).resolves.toBe(false);
  });

  it("report a storage failure once; the next one reads again", async () => {
    sinceAnswer = () => Promise.reject(new Error("not now"));
    await expect(begin(consumed)).rejects.toThrow("not now");
    sinceAnswer = () => Promise.resolve(1);
    await expect(begin(consumed)).resolves.toBe(false);
  });
});

describe("exchanges whose client hangs up", () => {
  const clock = new ManualClock();
  let server: Server;
  let arrived: PromiseWithResolvers<ServerResponse>;
  beforeEach(async () => {
    server = createServer((_request, response) => arrived.resolve(response));
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  });
  afterEach(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => void server.close(resolve));
  });

  /** A request, and how its client hangs up. */
  async function ask(): Promise<{ readonly response: ServerResponse; readonly hangUp: () => Promise<void> }> {
    arrived = Promise.withResolvers();
    const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
    socket.write("POST /token HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    const response = await arrived.promise;
    return {
      response,
      async hangUp() {
        const closed = new Promise((resolve) => void response.once("close", resolve));
        socket.destroy();
        await closed;
      },
    };
  }

  it.each([
    ["after", (begin: () => void, hangUp: () => Promise<void>) => (begin(), hangUp())],
    ["before", async (begin: () => void, hangUp: () => Promise<void>) => (await hangUp(), begin())],
  ])(
    "a later exchange is a replay if the client of the first one hung up %s it began",
    async (_when, run) => {
      const exchanges = createCodeExchanges({ sinceAnswer: () => Promise.resolve(1000) }, clock);
      const code = { model: "AuthorizationCode", key: "code", payload: {}, expiresAt: clock.now() + 60_000 };
      const first = await ask();
      await run(() => void exchanges.begin(code, first.response, clock.now()), first.hangUp);
      clock.advance(1000);
      const later = await ask();
      const consumed = { ...code, consumedAt: 1 };
      await expect(exchanges.begin(consumed, later.response, clock.now())).resolves.toBe(false);
    },
  );
});
