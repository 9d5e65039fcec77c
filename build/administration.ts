/** `docs/administration.openapi.json`: the REST API, for generators of clients. */
import type { Page } from "./page.ts";

export const administrationDocument: Page = {
  file: "docs/administration.openapi.json",
  async generate() {
    // Loaded now, because it reads the texts that have just been written.
    const { openApiDocument } = await import("../administration/open-api.ts");
    return `${JSON.stringify(openApiDocument(), undefined, 2)}\n`;
  },
};
