/** How often a test repeats what depends on chance: a few times, or many times in `npm run test:all`. */
export const rounds = (usual: number, thorough: number): number =>
  process.env["TEST_ROUNDS"] === "all" ? thorough : usual;
