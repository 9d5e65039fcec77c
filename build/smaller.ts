/** Our own style sheets and scripts for `npm run build`: the same without comments and needless white space. */
import { minifySync } from "vite";

/** @param file its name, which says what it is. @throws Error if the script does not compile. */
export function smaller(file: string, text: string): string {
  if (file.endsWith(".css")) return smallerSheet(text);
  const { code, errors } = minifySync(file, text, { compress: false, mangle: false });
  if (errors.length > 0) throw new Error(`${file}: ${errors[0]?.message}`);
  return code;
}

/** No text in a sheet has one of these signs. A real minifier drops `100vh`, which old browsers need before `100dvh`. */
function smallerSheet(css: string): string {
  return css
    .replaceAll(/\/\*[\s\S]*?\*\//g, "")
    .replaceAll(/\s+/g, " ")
    .replaceAll(/ ?([{};,]) ?/g, "$1")
    .replaceAll(/(?<=[{;][\w-]+:) /g, "")
    .replaceAll(";}", "}");
}
