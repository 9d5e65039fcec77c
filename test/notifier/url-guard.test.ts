import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "@jest/globals";
import { afterwards, BODY, deliverer, OK, opened, options, refused, target, at } from "./attempts.ts";
import { bytesPeer, httpPeer, selfSigned, tcpPeer } from "./peers.ts";

async function tlsPeer(host: string): Promise<{ port: number; cert: string; names: (string | undefined)[] }> {
  const { key, cert } = selfSigned(host);
  const names: (string | undefined)[] = [];
  const server = createServer({ key, cert }, (request, response) => {
    names.push(request.headers.host, (request.socket as { servername?: string }).servername);
    request.resume();
    response.end();
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  afterwards(() => {
    server.closeAllConnections();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, cert, names };
}
const resolve = async () => [{ address: "127.0.0.1", family: 4 }];

describe("where a receiver may live", () => {
  it.each([
    ["http://127.0.0.1/", "not public (loopback)"],
    ["https://127.0.0.1/", "not public (loopback)"],
    ["https://10.1.2.3/", "not public (private)"],
    ["https://169.254.169.254/latest/meta-data/", "not public (link local)"],
    ["https://[::1]/", "not public (loopback)"],
    ["https://[::ffff:127.0.0.1]/", "the URL must be"],
    ["https://[::ffff:7f00:1]/", "not public (ipv4 mapped)"],
    ["https://[64:ff9b::7f00:1]/", "not public (rfc6052)"],
    ["https://[2002:7f00:1::]/", "not public (6to4)"],
    ["https://[fe80::1]/", "not public (link local)"],
    ["https://[fe80::1%25lo]/", "the URL must be"],
    ["http://8.8.8.8/", "plain http"],
    ["http://2130706433/", "written plainly"],
    ["http://0x7f.1/", "written plainly"],
    ["http://0177.0.0.1/", "written plainly"],
    ["http://127.1/", "written plainly"],
    ["http://127.0.0.1./", "written plainly"],
    ["https://receiver.example./", "a dot at the end"],
    ["https://news:secret@receiver.example/", "must not have a user name or password"],
    ["https://receiver.example/#a", "must not have a fragment"],
    ["https://%6c%6f%63%61%6c%68%6f%73%74/", "written plainly"],
    ["ftp://receiver.example/", "must be an absolute URL"],
    ["//receiver.example/", "must be an absolute URL"],
    ["", "must be an absolute URL"],
  ])("is not %s, and no connection is made [D-NOTIFY-18]", async (url, reason) => {
    const { attempt } = deliverer({ allowedReceivers: [], resolve: async () => [] });
    const result = await attempt(target(url), BODY, options());
    expect(result).toMatchObject(refused(reason));
    expect((result as { reason: string }).reason.length).toBeLessThanOrEqual(200);
  });

  it("is told by the addresses of a name, all of them, with the system's resolver too [D-NOTIFY-18]", async () => {
    const peer = await opened(bytesPeer(OK));
    const url = `http://localhost:${peer.port}/`;
    const named = deliverer({ allowedReceivers: ["localhost"] });
    expect(await named.attempt(target(url), BODY, options())).toMatchObject({ status: 200 });
    const unnamed = deliverer({ allowedReceivers: [] });
    expect(await unnamed.attempt(target(url), BODY, options())).toMatchObject(
      refused("not public (loopback)"),
    );
    const mixed = deliverer({
      allowedReceivers: ["127.0.0.1"],
      resolve: async () => [
        { address: "127.0.0.1", family: 4 },
        { address: "127.0.0.2", family: 4 },
      ],
    });
    const there = `http://receiver.example:${peer.port}/`;
    expect(await mixed.attempt(target(there), BODY, options())).toMatchObject(
      refused("127.0.0.2 is not public"),
    );
    expect(peer.connections()).toBe(1);
  });

  it("is never link-local or metadata for a name, also when the configuration names it [D-NOTIFY-18]", async () => {
    for (const address of [
      "169.254.169.254",
      "fd00:ec2::254",
      "fe80::1%lo",
      "100.100.100.200",
      "::ffff:127.0.0.1",
    ]) {
      const { attempt } = deliverer({
        allowedReceivers: ["receiver.example"],
        resolve: async () => [{ address, family: address.includes(":") ? 6 : 4 }],
      });
      const result = await attempt(target("http://receiver.example/"), BODY, options());
      expect(result).toMatchObject(refused("not public"));
    }
  });

  it("is the address that was checked: a name server that changes its answer gains nothing [D-NOTIFY-18]", async () => {
    const reached: (string | undefined)[] = [];
    const peer = await opened(
      httpPeer((request, response) => {
        reached.push(request.socket.localAddress);
        request.resume();
        // Every connection is for one request, so that each attempt looks the name up.
        response.writeHead(200, { connection: "close" }).end();
      }),
    );
    const answers = ["127.0.0.2", "127.0.0.1", "127.0.0.2", "127.0.0.1"];
    let asked = 0;
    const { attempt } = deliverer({
      allowedReceivers: ["127.0.0.2"],
      resolve: async () => [{ address: answers[asked++] ?? "", family: 4 }],
    });
    const there = target(`http://receiver.example:${peer.port}/`);
    expect(await attempt(there, BODY, options())).toMatchObject({ status: 200 });
    expect(await attempt(there, BODY, options())).toMatchObject(refused("127.0.0.1 is not public"));
    expect(await attempt(there, BODY, options())).toMatchObject({ status: 200 });
    expect(await attempt(there, BODY, options())).toMatchObject(refused("127.0.0.1 is not public"));
    expect([asked, reached, peer.connections()]).toEqual([4, ["127.0.0.2", "127.0.0.2"], 2]);
  });

  it("is not got round by a connection that another name has opened [D-NOTIFY-18]", async () => {
    const peer = await opened(bytesPeer(OK));
    let asked = 0;
    const { attempt } = deliverer({
      allowedReceivers: ["good.example"],
      timeouts: { connect: 0.1, total: 15 },
      resolve: async () => {
        asked += 1;
        return [{ address: "127.0.0.1", family: 4 }];
      },
    });
    const [good, bad] = ["good", "bad"].map((name) => target(`http://${name}.example:${peer.port}/`));
    for (let i = 0; i < 3; i += 1) {
      expect(await attempt(good!, BODY, options())).toMatchObject({ status: 200 });
      expect(await attempt(bad!, BODY, options())).toMatchObject(refused("127.0.0.1 is not public"));
      const tls = target(`https://good.example:${peer.port}/`);
      expect(await attempt(tls, BODY, options())).toMatchObject({ kind: "failed" });
    }
    expect(await attempt(target(at(peer)), BODY, options())).toMatchObject(
      refused("127.0.0.1 is not public"),
    );
    // One look-up and one connection for the first name over http; each time anew for the others.
    expect([asked, peer.connections()]).toEqual([7, 4]);
  });

  it("that can't be looked up is a failed attempt, not a refused address [D-NOTIFY-18]", async () => {
    const there = target("https://receiver.example/");
    for (const code of ["ENOTFOUND", "EAI_AGAIN"]) {
      const { attempt } = deliverer({
        resolve: () => Promise.reject(Object.assign(new Error("receiver.example"), { code })),
      });
      expect(await attempt(there, BODY, options())).toMatchObject({ kind: "failed", code });
    }
    const nowhere = deliverer({ resolve: async () => [] });
    expect(await nowhere.attempt(there, BODY, options())).toMatchObject({
      kind: "failed",
      code: "ENOTFOUND",
    });
    const hanging = deliverer({
      resolve: () => new Promise(() => undefined),
      timeouts: { connect: 0.1, total: 15 },
    });
    const timedOut = { kind: "failed", code: "timeout_connect" };
    expect(await hanging.attempt(there, BODY, options())).toMatchObject(timedOut);
    expect(await hanging.attempt(there, BODY, options())).toMatchObject(timedOut);
  });
});

describe("TLS", () => {
  it("is checked: not signed by anybody known, or for another name, is a failed attempt", async () => {
    const { port, cert, names } = await tlsPeer("receiver.example");
    const there = target(`https://receiver.example:${port}/`);
    const strict = deliverer({ resolve });
    expect(await strict.attempt(there, BODY, options())).toMatchObject({
      kind: "failed",
      code: "DEPTH_ZERO_SELF_SIGNED_CERT",
    });
    const trusting = deliverer({ resolve, ca: cert });
    const other = target(`https://other.example:${port}/`);
    expect(await trusting.attempt(other, BODY, options())).toMatchObject({
      kind: "failed",
      code: "ERR_TLS_CERT_ALTNAME_INVALID",
    });
    expect(names).toEqual([]);
    expect(await trusting.attempt(there, BODY, options())).toMatchObject({ kind: "answered", status: 200 });
    // The name stays in the handshake and in the request, though the address is what was connected to.
    expect(names).toEqual([`receiver.example:${port}`, "receiver.example"]);
  });

  it("that is not spoken, or stops in the middle, is a failed attempt", async () => {
    const plain = await opened(bytesPeer(OK));
    const { attempt } = deliverer({ timeouts: { connect: 0.2, total: 15 } });
    const noTls = await opened(
      tcpPeer((socket) => socket.on("data", () => socket.write("HTTP/1.1 400 No\r\n\r\n"))),
    );
    expect(await attempt(target(`https://127.0.0.1:${noTls.port}/`), BODY, options())).toMatchObject({
      kind: "failed",
      code: expect.stringMatching(/^(?:EPROTO|ERR_SSL_[A-Z_]+)$/),
    });
    expect(await attempt(target(`https://127.0.0.1:${plain.port}/`), BODY, options())).toMatchObject({
      kind: "failed",
      code: "timeout_connect",
    });
  });
});
