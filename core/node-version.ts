/** The version of Node.js that this package needs. Older versions can load this file. */

/** The oldest major version. */
export const NEEDED_NODE = 24;

/** The problem with an older Node.js; `undefined` if this one is new enough. */
export function olderNodeProblem(): string | undefined {
  const { node } = process.versions;
  if (Number.parseInt(node, 10) >= NEEDED_NODE) return undefined;
  return `sign-in-service needs Node.js ${NEEDED_NODE} or newer, and this is ${node}. After npm install node@${NEEDED_NODE} in your folder, npx uses that one.`;
}
