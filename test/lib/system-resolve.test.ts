/** Looking names up. */
import { describe, expect, it } from "@jest/globals";
import { createSystemResolve, type Resolve } from "../../lib/system-resolve.ts";

const A = [{ address: "192.0.2.1", family: 4 }];
const B = [{ address: "192.0.2.2", family: 4 }];
const never: Resolve = () => new Promise(() => undefined);
const nowhere: Resolve = () => Promise.reject(Object.assign(new Error("no"), { code: "ENOTFOUND" }));

/** Remembers what it was asked. */
function asked(resolve: Resolve): { readonly hosts: string[]; readonly resolve: Resolve } {
  const hosts: string[] = [];
  return {
    hosts,
    resolve: (host) => {
      hosts.push(host);
      return resolve(host);
    },
  };
}

describe("the address of a name", () => {
  it("is the system's, hosts file included, and nobody else is asked while it answers", async () => {
    const direct = asked(never);
    await expect(createSystemResolve({ direct: direct.resolve })("localhost")).resolves.toContainEqual(
      expect.objectContaining({ address: expect.stringMatching(/^(?:127\.0\.0\.1|::1)$/) }),
    );
    const absent = createSystemResolve({ system: nowhere, direct: direct.resolve, patience: 10_000 });
    await expect(absent("receiver.example")).rejects.toMatchObject({ code: "ENOTFOUND" });
    expect(direct.hosts).toEqual([]);
  });

  it("is asked for in another way when the system has no thread left, and the system is asked once", async () => {
    const system = asked(never);
    const resolve = createSystemResolve({ system: system.resolve, direct: async () => B, patience: 5 });
    for (let times = 0; times < 3; times += 1) {
      await expect(resolve("receiver.example")).resolves.toEqual(B);
    }
    expect(system.hosts).toEqual(["receiver.example"]);
  });

  it("is the system's after all when the other way finds nothing", async () => {
    const answer = Promise.withResolvers<typeof A>();
    const tried = Promise.withResolvers<void>();
    const direct: Resolve = (host) => {
      tried.resolve();
      return nowhere(host);
    };
    const found = createSystemResolve({ system: () => answer.promise, direct, patience: 5 })("a.example");
    await tried.promise;
    answer.resolve(A);
    await expect(found).resolves.toEqual(A);
  });
});
