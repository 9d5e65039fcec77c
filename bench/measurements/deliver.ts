/** One guarded and bounded attempt of a delivery, compared with a bare POST. */
import { type Measurement, perSecond, type Row } from "../result.ts";
import { type Effort, inTurns } from "../rounds.ts";
import { LOAD_CORE, type Side, startSide } from "../side.ts";

const PARALLEL = 10;

async function rateOf(sender: Side, seconds: number): Promise<number> {
  const response = await fetch(`${sender.ready["base"] ?? ""}/?seconds=${seconds}`);
  if (response.status !== 200) throw new Error("the sender failed");
  return Number(await response.text());
}

/** Starts the two senders and measures them alternately. */
async function compare(effort: Effort, signed: boolean): Promise<Record<"ours" | "bare", number>> {
  const sides: Side[] = [];
  try {
    const sink = await startSide("sink");
    sides.push(sink);
    const start = async (kind: string): Promise<Side> => {
      const options = { kind, signed, url: `${sink.ready["base"] ?? ""}/notify`, parallel: PARALLEL };
      const side = await startSide("sender", { options, core: LOAD_CORE });
      sides.push(side);
      return side;
    };
    const [ours, bare] = [await start("deliver"), await start("bare")];
    return await inTurns(effort, {
      ours: () => rateOf(ours, effort.seconds),
      bare: () => rateOf(bare, effort.seconds),
    });
  } finally {
    await Promise.all(sides.map((side) => side.stop()));
  }
}

export const deliver: Measurement = {
  name: "deliver",
  async run(effort) {
    const rows: Row[] = [];
    for (const signed of [false, true]) {
      const { ours, bare } = await compare(effort, signed);
      rows.push({
        work: signed ? "an attempt, signed" : "an attempt",
        against: signed ? "http.request, createHmac" : "http.request, keep-alive",
        value: ours / bare,
        unit: "×",
        target: 0.9,
        raw: `${perSecond(ours)} and ${perSecond(bare)}`,
      });
    }
    return rows;
  },
};
