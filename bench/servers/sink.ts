/** A receiver that accepts everything immediately, with minimal work. */
import { serve } from "./ready.ts";

await serve(async () => ({
  handle: (request, response) => void request.resume().on("end", () => response.end()),
}));
