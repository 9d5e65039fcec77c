import { expect, it } from "@jest/globals";
import { readRedisAddress } from "../../config/value-forms.ts";

const NOTHING = {
  tls: false,
  port: 6379,
  username: undefined,
  password: undefined,
  db: 0,
  prefix: undefined,
};

it.each([
  ["redis://cache.example", { ...NOTHING, host: "cache.example" }],
  ["redis://cache.example/", { ...NOTHING, host: "cache.example" }],
  ["rediss://127.0.0.1:6380/15", { ...NOTHING, tls: true, host: "127.0.0.1", port: 6380, db: 15 }],
  ["redis://[::1]:7000", { ...NOTHING, host: "::1", port: 7000 }],
  ["redis://:p%40s%3As@h", { ...NOTHING, host: "h", password: "p@s:s" }],
  [
    "redis://news:pw@h?prefix=news:",
    { ...NOTHING, host: "h", username: "news", password: "pw", prefix: "news:" },
  ],
])("reads %s", (text, address) => {
  expect(readRedisAddress(text)).toEqual(address);
});

it.each([
  "http://cache.example",
  "redisss://cache.example",
  "redi://u:secret@h",
  "redis:",
  "redis:///0",
  "cache",
])("refuses %s", (text) => {
  expect(readRedisAddress(text)).toBe("must be a `redis://` or `rediss://` URL");
});
