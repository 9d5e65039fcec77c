/** Operators, failing receivers, changes of the directory and workers that end, in any order: no delivery is left behind. */
import { expect, it } from "@jest/globals";
import * as fc from "fast-check";
import { SignInError } from "../../core/errors.ts";
import { rounds } from "../rounds.ts";
import { HOUR, MINUTE, openWorld, SECOND, type Worker, type World } from "./stage.ts";
import { storedDeliveries } from "./stored-deliveries.ts";

/** How a receiver answers. */
const MOODS = [
  200,
  410,
  500,
  500,
  { kind: "failed", code: "timeout_total" },
  { kind: "refused", reason: "not allowed" },
];
const USERS = ["a", "b"];
const RECEIVERS = ["1", "2"];

/** `false` if the call is refused: there is no such delivery or receiver, or it is in another state. */
async function isDone(call: Promise<unknown>): Promise<boolean> {
  try {
    await call;
    return true;
  } catch (error) {
    if (error instanceof SignInError) return false;
    throw error;
  }
}

/** What happened to one world. */
class Story {
  readonly world: World;
  readonly moods = new Map<string, number | object>();
  /** What was sent again by hand: it goes when it goes. */
  readonly redriven = new Set<string>();
  worker: Worker;
  #stored = 0;

  constructor(world: World) {
    this.world = world;
    this.worker = world.worker();
    world.answer = ({ target }) => this.moods.get(String(target.client_id).replace("service ", "")) ?? 200;
  }

  async add(receiver: string, user: string): Promise<void> {
    // A delivery's number is its place in its lane.
    const number = String((this.#stored += 1)).padStart(3, "0");
    await this.world.add(`${number}${user}@${receiver}/${user}`);
  }

  /** One of those that there are. */
  async one(which: number): Promise<string> {
    const all = await storedDeliveries(this.world.notifications);
    return all[which % Math.max(all.length, 1)]?.id ?? "none";
  }

  async redrive(ids: readonly string[], force: boolean): Promise<void> {
    for (const id of ids) {
      if (await isDone(this.world.notifications.redrive(id, { force }))) this.redriven.add(id);
    }
  }
}

/** One step; `toString` is what is said when it goes wrong. */
type Step = readonly [name: string, run: (story: Story) => Promise<unknown>];

const receiver = fc.constantFrom(...RECEIVERS);
const steps: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.tuple(receiver, fc.constantFrom(...USERS)).map(added) },
  fc
    .tuple(receiver, fc.constantFrom(...MOODS))
    .map(([name, mood]): Step => [
      `${name} answers ${JSON.stringify(mood)}`,
      async ({ moods }) => moods.set(name, mood),
    ]),
  { weight: 6, arbitrary: fc.constantFrom(SECOND, HOUR, 10 * HOUR).map(lived) },
  receiver.map((name): Step => [
    `pause ${name}`,
    ({ world }) => isDone(world.notifications.pause(`service:${name}`)),
  ]),
  receiver.map((name): Step => [
    `resume ${name}`,
    ({ world }) => isDone(world.notifications.resume(`service:${name}`)),
  ]),
  receiver.map((name): Step => [
    `remove ${name}`,
    ({ world }) => world.directory.services.put(name, { name }),
  ]),
  receiver.map((name): Step => [`put ${name}`, ({ world }) => world.receiver(name)]),
  fc
    .tuple(fc.nat(30), fc.boolean())
    .map(([which, force]): Step => [
      `redrive ${which}, ${force}`,
      async (story) => story.redrive([await story.one(which)], force),
    ]),
  {
    weight: 3,
    arbitrary: fc
      .boolean()
      .map((force): Step => [`redrive all, ${force}`, (story) => redriveAll(story, force)]),
  },
  fc
    .nat(30)
    .map((which): Step => [
      `discard ${which}`,
      async (story) => isDone(story.world.notifications.discard(await story.one(which))),
    ]),
  fc.constant<Step>(["upkeep", ({ worker }) => worker.upkeep.pass()]),
  fc.constant<Step>(["another worker", restart]),
);

function added([name, user]: readonly [string, string]): Step {
  return [`add ${user}@${name}`, (story) => story.add(name, user)];
}

function lived(span: number): Step {
  return [`live ${span}`, ({ worker }) => worker.live(span)];
}

async function redriveAll({ world, redriven }: Story, force: boolean): Promise<void> {
  const before = world.emitted.length;
  await world.notifications.redriveAll({ force });
  for (const [name, argument] of world.emitted.slice(before)) {
    if (name === "delivery.redriven") redriven.add((argument as { readonly id: string }).id);
  }
}

async function restart(story: Story): Promise<void> {
  await story.worker.lanes.stop(0);
  story.worker = story.world.worker();
}

/** Receivers are there, well and resumed; then what was parked is sent again. */
async function end(story: Story): Promise<void> {
  const { world, worker } = story;
  story.moods.clear();
  for (const name of RECEIVERS) {
    await world.receiver(name);
    await world.notifications.resume(`service:${name}`);
  }
  await worker.live(MINUTE);
  expect(await storedDeliveries(world.notifications, { state: "waiting" })).toEqual([]);
  await redriveAll(story, true);
  await worker.live(MINUTE);
  expect(await storedDeliveries(world.notifications, { state: "waiting" })).toEqual([]);
  expect(await storedDeliveries(world.notifications, { state: "parked" })).toEqual([]);
}

/** Deliveries of a lane without redrives arrive for the first time in the order in which they were stored. */
function expectOrder({ world, redriven }: Story): void {
  const first = [...new Set(world.posted.map(({ id, target }) => `${target.client_id} ${id}`))];
  const untouched = first.filter((each) => !redriven.has(each.slice(-4)));
  for (const lane of Map.groupBy(untouched, (each) => each.slice(0, 9) + each.slice(-1)).values()) {
    expect(lane).toEqual(lane.toSorted((one, other) => (one < other ? -1 : 1)));
  }
}

const described = (all: readonly Step[]): string => all.map(([name]) => name).join("; ");

it("everything arrives in order once all receivers work and parked deliveries are sent again [D-NOTIFY-15, D-NOTIFY-16, D-NOTIFY-17]", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(steps, { maxLength: 60, size: "max" }), async (all) => {
      const world = await openWorld({ retryDelays: [5, 7200] });
      try {
        const story = new Story(world);
        for (const name of RECEIVERS) await world.receiver(name);
        for (const [, run] of all) await run(story);
        await end(story);
        expectOrder(story);
        expect(world.emitted.filter(([name]) => name === "fault")).toEqual([]);
      } catch (error) {
        throw new Error(described(all), { cause: error });
      } finally {
        await world.storage.close();
      }
    }),
    { numRuns: rounds(150, 400) },
  );
});
