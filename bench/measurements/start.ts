/** Time from the start of the process to the first response, and memory of an idle service. */
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { type Measurement, type Row } from "../result.ts";
import { median } from "../rounds.ts";
import { startSide } from "../side.ts";

/** Milliseconds after which the memory of the start is released. */
const IDLE = 2_000;

interface Start {
  readonly milliseconds: number;
  readonly memory: number;
}

async function startOnce(file: string): Promise<Start> {
  const began = performance.now();
  const side = await startSide("service", { options: { file }, core: "any" });
  try {
    const response = await fetch(`${side.ready["base"] ?? ""}/openid/.well-known/openid-configuration`);
    if (response.status !== 200) throw new Error(`the first answer is ${response.status}`);
    await response.text();
    const milliseconds = performance.now() - began;
    await pause(IDLE);
    return { milliseconds, memory: side.memory() };
  } finally {
    await side.stop();
  }
}

export const start: Measurement = {
  name: "start",
  async run({ rounds }, folder) {
    const fresh: Start[] = [];
    const existing: Start[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const file = join(folder, `${round}.db`);
      fresh.push(await startOnce(file));
      existing.push(await startOnce(file));
    }
    const time = (starts: readonly Start[], against: string): Row => {
      const all = starts.map(({ milliseconds }) => milliseconds);
      const raw = `${all.map(Math.round).join(", ")} ms`;
      return { work: "start to first answer", against, value: median(all), unit: "ms", target: 700, raw };
    };
    const sizes = existing.map(({ memory }) => memory);
    return [
      time(fresh, "a new database and new keys"),
      time(existing, "a database that is there"),
      {
        work: "idle memory",
        against: "resident",
        value: median(sizes),
        unit: "MB",
        target: 110,
        raw: `${sizes.map(Math.round).join(", ")} MB`,
      },
    ];
  },
};
