/** Resolving the host names of receivers. */
import { describe, expect, it } from "@jest/globals";
import { createSystemResolve, type Resolve } from "../../core/outbound-agents.ts";

const A = [{ address: "192.0.2.1", family: 4 }];
const B = [{ address: "192.0.2.2", family: 4 }];
const never: Resolve = () => new Promise(() => undefined);
const nowhere: Resolve = () => Promise.reject(Object.assign(new Error("no"), { code: "ENOTFOUND" }));

/** Records the hosts that are resolved. */
function recorded(resolve: Resolve): { readonly hosts: string[]; readonly resolve: Resolve } {
  const hosts: string[] = [];
  return {
    hosts,
    resolve: (host) => {
      hosts.push(host);
      return resolve(host);
    },
  };
}

describe("the addresses of a host name", () => {
  it("come from the system's resolver as long as it responds", async () => {
    const direct = recorded(never);
    await expect(createSystemResolve({ direct: direct.resolve })("localhost")).resolves.toContainEqual(
      expect.objectContaining({ address: expect.stringMatching(/^(?:127\.0\.0\.1|::1)$/) }),
    );
    const absent = createSystemResolve({ system: nowhere, direct: direct.resolve, directAfterMs: 10_000 });
    await expect(absent("receiver.example")).rejects.toMatchObject({ code: "ENOTFOUND" });
    expect(direct.hosts).toEqual([]);
  });

  it("come from the name servers while one call of the system's resolver hangs", async () => {
    const system = recorded(never);
    const resolve = createSystemResolve({ system: system.resolve, direct: async () => B, directAfterMs: 5 });
    for (let times = 0; times < 3; times += 1) {
      await expect(resolve("receiver.example")).resolves.toEqual(B);
    }
    expect(system.hosts).toEqual(["receiver.example"]);
  });

  it("come from the system's resolver if the name servers know none", async () => {
    const answer = Promise.withResolvers<typeof A>();
    const tried = Promise.withResolvers<void>();
    const direct: Resolve = (host) => {
      tried.resolve();
      return nowhere(host);
    };
    const found = createSystemResolve({ system: () => answer.promise, direct, directAfterMs: 5 })(
      "a.example",
    );
    await tried.promise;
    answer.resolve(A);
    await expect(found).resolves.toEqual(A);
  });
});
