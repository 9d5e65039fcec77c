/** The types of `machine.mjs`, which also runs before the first install. */
export declare function programFor(
  need:
    | "promtool"
    | "nginx"
    | "PgBouncer"
    | "bash"
    | "zsh"
    | "fish"
    | "faketime"
    | "hadolint"
    | "systemd-analyze"
    | "Authlib"
    | "Go"
    | "Keycloak",
): string;
