/** Who is an operator, and what a role may do. */
import { describe, expect, it } from "@jest/globals";
import {
  allows,
  isOperator,
  OPERATOR_ROLES,
  type OperatorRole,
  roleOf,
  ROLES,
} from "../../config/operators.ts";
import { readConfiguration } from "../../config/read.ts";
import { SMALLEST } from "./refusals.ts";

const ADA = "0b0f7d3c-8c4e-4c2a-9d57-6a1b6f1f5a10";
const GRACE = "1b0f7d3c-8c4e-4c2a-9d57-6a1b6f1f5a10";

/** What a role may do. */
const allowed = (role: OperatorRole): readonly string[] =>
  ROLES.flatMap((least) => [
    ...(allows(role, { role: least }) ? [least] : []),
    ...(allows(role, { role: least, deliveries: true }) ? [`${least}, deliveries`] : []),
  ]);
/** Everything that asks for one of the first roles. */
const upTo = (count: number): string[] =>
  ROLES.slice(0, count).flatMap((least) => [least, `${least}, deliveries`]);

describe("operators", () => {
  it("have the role of the map, and in the old form of a list the role deliveries [D-ADM-80]", () => {
    const map = readConfiguration({ ...SMALLEST, operators: { [ADA]: "support" } });
    expect([roleOf(map, ADA), roleOf(map, GRACE), map.operatorsAreListed]).toEqual([
      "support",
      undefined,
      false,
    ]);
    const listed = readConfiguration({ ...SMALLEST, operators: [ADA] });
    expect([roleOf(listed, ADA), roleOf(listed, GRACE), listed.operatorsAreListed]).toEqual([
      "deliveries",
      undefined,
      true,
    ]);
    expect(readConfiguration({ ...SMALLEST, operators: [] }).operatorsAreListed).toBe(false);
  });

  it("are nobody by the name of what every object has", () => {
    const configuration = readConfiguration(SMALLEST);
    for (const name of ["constructor", "__proto__", "toString", ""])
      expect([name, roleOf(configuration, name), isOperator(configuration, name)]).toEqual([
        name,
        undefined,
        false,
      ]);
  });

  it("may do what asks for their role or a lesser one; deliveries only what names it [D-ADM-81]", () => {
    expect(Object.fromEntries(OPERATOR_ROLES.map((role) => [role, allowed(role)]))).toEqual({
      viewer: upTo(1),
      support: upTo(2),
      administrator: upTo(3),
      deliveries: ROLES.map((least) => `${least}, deliveries`),
    });
  });
});
