/** Tests that need a MongoDB, and the servers for them. */
import { describe } from "@jest/globals";
import { hasMongo, hasOwnMongo } from "./mongodb-server.ts";

export { type MongoServer, openMongoServer, type OwnMongo, startOwnMongo } from "./mongodb-server.ts";

/** `describe` where there is a server; else its tests are skipped, loudly, and in CI that is a failure. */
function describeIf(isThere: boolean): typeof describe | typeof describe.skip {
  if (isThere) return describe;
  const sentence = "no MongoDB for the tests: set MONGODB_URL, or see test/machine.mjs";
  if (process.env["CI"] === "true") throw new Error(sentence);
  console.error(`!!! ${sentence}`);
  return describe.skip;
}

/** For tests that need any server. */
export const describeMongo: typeof describe | typeof describe.skip = describeIf(hasMongo);
/** For tests that stop or pause the server, and so need one of their own. */
export const describeOwnMongo: typeof describe | typeof describe.skip = describeIf(hasOwnMongo);
