/** Code exchange, without an ID token and with one of each algorithm. */
import { once } from "../load.ts";
import {
  type ExchangeSide,
  type Ground,
  metered,
  onEachGround,
  type OauthSide,
  withBoth,
} from "../oauth-side.ts";
import { type Measurement, perSecond, type Row } from "../result.ts";
import { type Effort, inTurns, rate, type Sample, WARM } from "../rounds.ts";

export async function exchangeLoad(
  side: ExchangeSide,
  { requests }: Pick<Effort, "requests">,
  connections: number,
): Promise<() => Promise<Sample>> {
  return async () => {
    const exchanges = (await side.codes(requests)).map((code) => side.exchange(code));
    return metered(side, () => once(side.base, exchanges, { connections }));
  };
}

/** What is exchanged, and the ratio to reach. An RS256 signature takes longer than everything else. */
const EXCHANGES: readonly {
  readonly work: string;
  readonly target: number;
  readonly of: (side: OauthSide) => ExchangeSide;
}[] = [
  { work: "code exchange", target: 1.6, of: (side) => side },
  { work: "code exchange, RS256 ID token", target: 1.3, of: (side) => side.withIdToken("RS256") },
  { work: "code exchange, ES256 ID token", target: 1.3, of: (side) => side.withIdToken("ES256") },
];

async function compare(
  effort: Effort,
  { against, connections }: Ground,
  { service, oidc }: { readonly service: OauthSide; readonly oidc: OauthSide },
): Promise<Row[]> {
  const rows: Row[] = [];
  for (const { work, target, of } of EXCHANGES) {
    const sides = {
      service: rate(await exchangeLoad(of(service), effort, connections)),
      oidc: rate(await exchangeLoad(of(oidc), effort, connections)),
    };
    const rates = await inTurns(effort, sides, WARM);
    const value = rates.service / rates.oidc;
    const raw = `${perSecond(rates.service)} to ${perSecond(rates.oidc)}`;
    rows.push({ work, against, value, unit: "×", target, raw });
  }
  return rows;
}

export const exchange: Measurement = {
  name: "exchange",
  run: (effort, folder) =>
    onEachGround(folder, (ground) =>
      withBoth(ground.stores, (service, oidc) => compare(effort, ground, { service, oidc })),
    ),
};
