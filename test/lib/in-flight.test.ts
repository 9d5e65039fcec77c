/** What is under way, beside a `Set` that is told the same. */
import { describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import { InFlight, type Place } from "../../lib/in-flight.ts";

/** Something begins, or the one at this place among all that ever began ends (again). */
const steps = fc.array(fc.oneof(fc.constant("begin" as const), fc.record({ end: fc.nat({ max: 40 }) })), {
  maxLength: 120,
});

describe("what is in flight", () => {
  it("is what has begun and not ended, whatever ends first and however often", () => {
    fc.assert(
      fc.property(steps, (all) => {
        const flight = new InFlight<number>();
        const model = new Set<number>();
        const begun: Place<number>[] = [];
        for (const step of all) {
          if (step === "begin") {
            model.add(begun.length);
            begun.push(flight.add(begun.length));
          } else {
            const place = begun[step.end];
            if (place === undefined) continue;
            flight.end(place);
            model.delete(place.what);
          }
          expect(new Set(flight.all().map(({ what }) => what))).toEqual(model);
          expect(flight.all()).toHaveLength(model.size);
        }
      }),
    );
  });

  it("may end while all of it is looked at", () => {
    const flight = new InFlight<string>();
    for (const name of ["a", "b", "c", "d"]) flight.add(name);
    const seen: string[] = [];
    for (const place of flight.all()) {
      flight.end(place);
      seen.push(place.what);
    }
    expect(seen).toEqual(["a", "b", "c", "d"]);
    expect(flight.all()).toEqual([]);
  });
});
