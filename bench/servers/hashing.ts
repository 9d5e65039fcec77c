/** Only compares passwords, with the package and the cost of the service. */
import { hash, verify } from "@node-rs/argon2";
import { PERSON } from "./people.ts";
import { options, serve } from "./ready.ts";

const { parallel = 1 } = options();

await serve(async () => {
  const cost = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };
  const kept = await hash(PERSON.password, cost);

  /** `/COUNT`: makes this many comparisons, and responds with comparisons per second. */
  async function compare(count: number): Promise<number> {
    let left = count;
    const began = performance.now();
    const worker = async (): Promise<void> => {
      while (left > 0) {
        left -= 1;
        if (!(await verify(kept, PERSON.password))) throw new Error("the password is wrong");
      }
    };
    await Promise.all(Array.from({ length: parallel }, worker));
    return count / ((performance.now() - began) / 1000);
  }

  return {
    handle: (req, res) =>
      void compare(Number(req.url?.slice(1))).then(
        (rate) => res.end(String(rate)),
        () => res.destroy(),
      ),
  };
});
