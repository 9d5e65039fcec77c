/** A minimal Koa server that always sends the same response. */
import Koa from "koa";
import { serve } from "./ready.ts";

await serve(async () => {
  const app = new Koa();
  app.use((ctx) => {
    ctx.body = { sub: "b5c6ab5e-0e4c-4d7c-8f0a-4f3e8d9f2c11", email: "ada@example.com" };
  });
  const handle = app.callback();
  return { handle: (req, res) => void handle(req, res) };
});
