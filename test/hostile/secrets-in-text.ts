/** Finds secrets and personal data in text, whatever it was encoded as. */

/** Secrets by name. */
export class Secrets {
  readonly all: Map<string, string> = new Map();

  add(name: string, value: string | undefined): string {
    if (value === undefined || value.length < 8) throw new Error(`${name} is no secret: ${value}`);
    this.all.set(name, value);
    return value;
  }

  /** The names of the secrets in a text, plain or encoded. */
  in(text: string): string[] {
    return [...this.all]
      .filter(([, value]) =>
        [
          value,
          encodeURIComponent(value),
          new URLSearchParams([["", value]]).toString().slice(1),
          JSON.stringify(value).slice(1, -1),
          Buffer.from(value).toString("base64").replaceAll("=", ""),
          Buffer.from(value).toString("hex"),
        ].some((form) => text.includes(form)),
      )
      .map(([name]) => name);
  }
}
