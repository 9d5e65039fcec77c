/** The compose file, as Docker reads it. */
import { parse } from "yaml";
import { textOf } from "../examples/documents.ts";

export interface ComposeService {
  readonly image: string;
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly user?: string;
  readonly restart?: string;
  readonly networks: readonly string[];
  readonly ports?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly secrets: readonly string[];
  readonly volumes?: readonly string[];
}

export const compose: {
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
  readonly networks: Readonly<Record<string, { readonly internal?: boolean }>>;
} = parse(textOf("deploy/compose.yml"), { merge: true });

/** What compose.admin.yml adds to it. */
export const administration: {
  readonly name: string;
  readonly services: Readonly<Record<string, Required<Pick<ComposeService, "ports" | "environment">>>>;
} = parse(textOf("deploy/compose.admin.yml"));
