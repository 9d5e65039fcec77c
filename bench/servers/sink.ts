/** A receiver that takes everything at once: what it costs is the least that a receiver can cost. */
import { serve } from "./ready.ts";

await serve(async () => ({
  handle: (request, response) => void request.resume().on("end", () => response.end()),
}));
