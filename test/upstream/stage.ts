/** A provider and what talks to it, for tests. */
import type { SignInServiceConfig } from "../../config/input.ts";
import type { ProvidersInput } from "../../config/providers.ts";
import { readConfiguration } from "../../config/read.ts";
import { createEvents } from "../../core/events.ts";
import type { ServiceEvent } from "../../core/events.ts";
import { createTestProvider, type TestProvider } from "../../testing/index.ts";
import { TestClock } from "../../testing/test-clock.ts";
import {
  createUpstream,
  type Departure,
  type Upstream,
  type UpstreamIdentity,
} from "../../upstream/upstream.ts";

type ProviderOptions = Parameters<typeof createTestProvider>[0];

interface Settings {
  /** Of the provider `test`. Default: those of the test provider. */
  readonly provider?: Partial<ProvidersInput[string]>;
  /** Further providers. */
  readonly providers?: ProvidersInput;
  readonly config?: Partial<SignInServiceConfig>;
  readonly options?: ProviderOptions;
  /** The key of the provider. Default: `test`. */
  readonly key?: string;
  /** The provider has its own hosts, and its requests come to the test provider. Default: the test provider is the issuer. */
  readonly isElsewhere?: boolean;
  readonly timeoutMs?: number;
}

export interface Stage {
  readonly provider: TestProvider;
  readonly upstream: Upstream;
  readonly clock: TestClock;
  /** What was logged, as text. */
  readonly lines: string[];
  /** Events about providers. */
  readonly events: (readonly [name: string, argument: Readonly<Record<string, unknown>>])[];
  /** There and back. */
  travel(departure?: Partial<Departure>): Promise<UpstreamIdentity>;
  close(): Promise<void>;
}

export const CALLBACK = "https://sign-in.example/providers/test/callback";

/** A client of the provider, as the documents tell an operator to set it up. */
export async function createStage({
  provider: settings,
  providers,
  config,
  options,
  key = "test",
  isElsewhere = false,
  timeoutMs,
}: Settings = {}): Promise<Stage> {
  const provider = await createTestProvider(options);
  const clock = new TestClock();
  provider.clock = clock;
  const configured = {
    ...(key === "test" ? provider.settings : !isElsewhere && { issuer: provider.issuer }),
    ...settings,
  };
  const configuration = readConfiguration({
    deployments: { openid: { url: "http://localhost:9" } },
    storage: "sqlite::memory:",
    providers: { [key]: configured as ProvidersInput[string], ...providers },
    ...(isElsewhere && { fetch: provider.fetch }),
    ...config,
    clock,
  });
  const lines: string[] = [];
  const emitter = createEvents((error) => lines.push(String(error)));
  const events: Stage["events"] = [];
  for (const name of ["started", "finished", "failed"] as const)
    emitter.on(`provider.${name}` satisfies ServiceEvent, (argument: Readonly<Record<string, unknown>>) => {
      events.push([name, argument]);
    });
  const logger = { warn: (...parts: unknown[]) => void lines.push(JSON.stringify(parts)) };
  const upstream = createUpstream({ configuration, clock, events: emitter, logger }, timeoutMs);
  provider.signIn({ sub: "ada", email: "ada@example.org", email_verified: true });
  return {
    provider,
    upstream,
    clock,
    lines,
    events,
    async travel(departure = {}) {
      const { url, trip } = await upstream.begin(key, { redirectUri: CALLBACK, ...departure });
      const back = await provider.visit(url);
      const answer =
        back.form === undefined ? new URL(back.url).searchParams : new URLSearchParams(back.form);
      return upstream.finish(JSON.parse(JSON.stringify(trip)), answer);
    },
    async close() {
      await upstream.close();
      await provider.close();
    },
  };
}
