/** Account changes on PostgreSQL, each with a notification, compared with pgbench on the same server. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { createTestSignIn, type TestSignIn } from "../../testing/index.ts";
import { startPostgres } from "../postgres.ts";
import type { Measurement } from "../result.ts";
import { inTurns } from "../rounds.ts";

/** Changes in flight, and connections of pgbench. */
const PARALLEL = 50;
const ACCOUNTS = 500;
const MARK = 0.4;

const run = promisify(execFile);

/** TPC-B: five statements in each transaction. @returns transactions per second. */
async function pgbench(program: string, url: string, seconds: number): Promise<number> {
  const load = ["-n", "-c", String(PARALLEL), "-j", "2", "-T", String(seconds), url];
  const { stdout } = await run(program, load);
  return Number(/^tps = ([\d.]+)/m.exec(stdout)?.[1]);
}

async function addAccounts(test: TestSignIn): Promise<string[]> {
  await test.addReceiver("1");
  const subs: string[] = [];
  for (let index = 0; index < ACCOUNTS; index += 1) {
    const { account } = await test.addPerson();
    await test.service.accounts.assign(account.sub, "1");
    subs.push(account.sub);
  }
  return subs;
}

/** @returns changes per second. */
async function change({ service }: TestSignIn, subs: readonly string[], seconds: number): Promise<number> {
  const began = performance.now();
  const end = began + seconds * 1_000;
  let changed = 0;
  const one = async (first: number): Promise<void> => {
    // No two of them change the same account.
    for (let index = first; performance.now() < end; index = (index + PARALLEL) % subs.length) {
      await service.accounts.update(subs[index] ?? "", { name: `Ada ${changed}` });
      changed += 1;
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, (_each, first) => one(first)));
  return changed / ((performance.now() - began) / 1_000);
}

export const postgresql: Measurement = {
  name: "postgresql",
  async run(effort, folder) {
    const postgres = await startPostgres(folder);
    const bench = await postgres.newDatabase();
    await run(postgres.program("pgbench"), ["-i", "-s", "10", "-q", bench]);
    const test = await createTestSignIn({ storage: `${await postgres.newDatabase()}?pool_size=20` });
    try {
      const subs = await addAccounts(test);
      const { changes, transactions } = await inTurns(effort, {
        changes: () => change(test, subs, effort.seconds),
        transactions: () => pgbench(postgres.program("pgbench"), bench, effort.seconds),
      });
      return [
        {
          work: "account change",
          against: "TPC-B of pgbench, PostgreSQL",
          value: changes / transactions,
          unit: "×",
          target: MARK,
          raw: `${Math.round(changes)} and ${Math.round(transactions)} a second`,
        },
      ];
    } finally {
      await test.close();
      await postgres.stop();
    }
  },
};
