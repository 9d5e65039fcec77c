/** How often a test repeats what depends on chance, or how it does it: cheaply, or thoroughly in `npm run test:all`. */
export const rounds = <T = number>(usual: T, thorough: T): T =>
  process.env["TEST_ROUNDS"] === "all" ? thorough : usual;
