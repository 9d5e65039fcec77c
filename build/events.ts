/** `docs/notifications/events.md` and the published JSON Schema of account events, from their table. */
import { z } from "zod";
import {
  EVENT_ROWS,
  EVENTS_VERSION,
  type EventBody,
  eventSchema,
  exampleEvent,
} from "../accounts/events/event-types.ts";
import { EVENT_TYPES, type EventType } from "../config/events.ts";
import { type Page, pageWithTables } from "./page.ts";

/** 2026-01-01T00:00:00Z */
const EXAMPLE_TIME = 1_767_225_600;

const example = (type: EventType): EventBody => exampleEvent(type, EXAMPLE_TIME);

/**
 * A receiver that checks events must go on to accept them when a later release adds a member. What `format` and `type` say is
 * not said twice.
 */
function open(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(open);
  if (typeof schema !== "object" || schema === null) return schema;
  const isSaid = ([keyword, value]: readonly [string, unknown]): boolean =>
    (keyword === "additionalProperties" && value === false) ||
    (keyword === "pattern" && "format" in schema) ||
    keyword === "propertyNames" ||
    Math.abs(Number(value)) === Number.MAX_SAFE_INTEGER;
  return Object.fromEntries(
    Object.entries(schema)
      .filter((entry) => !isSaid(entry))
      .map(([keyword, value]) => [keyword, open(value)]),
  );
}

function published(type: EventType): object {
  const { $schema: _dialect, ...schema } = z.toJSONSchema(eventSchema(type));
  const description = `Sent when ${EVENT_ROWS.get(type)?.when}.`.replaceAll("`", "");
  return { title: type, description, ...(open(schema) as object), examples: [example(type)] };
}

export const eventsSchemaFile: Page = {
  file: "docs/events.schema.json",
  generate: () =>
    `${JSON.stringify(
      {
        $schema: "https://json-schema.org/draft/2020-12/schema",
        $id: `urn:sign-in-service:events:${EVENTS_VERSION}`,
        title: `Account events of sign-in-service, version ${EVENTS_VERSION}`,
        oneOf: EVENT_TYPES.map(published),
      },
      undefined,
      2,
    )}\n`,
};

export const eventsPage: Page = pageWithTables("docs/notifications/events.md", () => {
  const rows = EVENT_TYPES.map((type) => {
    const { when, tells } = EVENT_ROWS.get(type)!;
    const members = Object.keys(tells).map((name) => `\`${name}\``);
    return `| \`${type}\` | ${when} | ${members.join(", ")} |`;
  });
  const heads = [
    "| Type | Sent when | Members of `data` besides `sub` and `user_id` |",
    "| --- | --- | --- |",
  ];
  return { "all types": [...heads, ...rows].join("\n") };
});
