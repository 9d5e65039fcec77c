/** A page under `docs/` that is written from the code, so that it can't say something else. */
export interface Page {
  /** Path from the root of the project. */
  readonly file: string;
  /** The whole text of the page. The same code gives the same text. */
  readonly generate: () => string | Promise<string>;
}
