/** The types of `machine.mjs`, which also runs before the first install. */
export declare const PROMTOOL: readonly string[];
export declare const LINT_DOCKERFILE: readonly string[];
export declare const AUTHLIB: readonly string[];
export declare const SYSTEMD_ANALYZE: readonly string[];

export declare function locate(executables: readonly string[]): string | undefined;
