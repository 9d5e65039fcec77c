/**
 * Sign-ins by passkey: complete ones, from the authorization endpoint to the code, and only the check of what a browser
 * sends.
 */
import { generateKeyPairSync, randomBytes, sign, verify } from "node:crypto";
import { join } from "node:path";
import { pino } from "pino";
import { createPasskeys, type Passkeys } from "../../accounts/factors/passkeys.ts";
import { createSignInServiceOver } from "../../lib/service.ts";
import { openStorage, type Storage } from "../../records/storage.ts";
import { addPhone } from "../../testing/add-passkey.ts";
import type { TestAuthenticator } from "../../testing/index.ts";
import { metered } from "../oauth-side.ts";
import { type Measurement, perSecond } from "../result.ts";
import { inTurns, rate } from "../rounds.ts";
import { CALLBACK, CLIENT, PERSON } from "../servers/people.ts";
import { signInMany } from "../session.ts";
import { type Side, startSide } from "../side.ts";

/** Parallel sign-ins, each with a passkey of its own. An account has ten at most. */
const BROWSERS = 8;
/** How many times more sign-ins than with passwords, because no password is hashed. */
const MORE = 10;
/** Sign-ins before the measurement, after which the code is compiled. */
const WARM_UP = 2_000;

const clock = { now: Date.now };

/** What this process uses of the storage of a server. */
interface Stage {
  readonly phones: readonly TestAuthenticator[];
  readonly passkeys: Passkeys;
  close(): Promise<void>;
}

/** Opens the storage beside the server, and adds passkeys to its person. */
async function openStage(base: string, file: string): Promise<Stage> {
  const opened: { storage?: Storage } = {};
  const service = await createSignInServiceOver(
    {
      deployments: { oauth2: { url: base }, openid: { url: `${base}/openid` } },
      storage: `sqlite:${file}`,
      logger: pino({ level: "warn" }, pino.destination(2)),
    },
    async (configuration) => (opened.storage = await openStorage(configuration)),
    { role: "command" },
  );
  const { sub = "" } = (await service.accounts.findByLogin(PERSON.username)) ?? {};
  const phones: TestAuthenticator[] = [];
  for (let each = 0; each < BROWSERS; each += 1) phones.push(await addPhone({ service }, sub, clock));
  const relyingParty = { id: "localhost", previousIds: [], origins: [base], name: "Benchmarks" };
  const { records } = opened.storage!;
  return {
    phones,
    passkeys: createPasskeys(relyingParty, records, clock),
    close: () => service.close(),
  };
}

/** Checks what the authenticators have signed before, and stores that it was used. @returns checks per second. */
async function check({ phones, passkeys }: Stage, count: number): Promise<number> {
  const signed = phones.map((phone) =>
    Array.from({ length: count / BROWSERS }, () => {
      const challenge = passkeys.challenge();
      return { challenge, credential: phone.get(passkeys.anyRequest(challenge)) };
    }),
  );
  const began = performance.now();
  await Promise.all(
    signed.map(async (all) => {
      for (const { challenge, credential } of all) {
        const { kind } = await passkeys.use(credential, challenge);
        if (kind === "refused") throw new Error("a passkey was refused");
      }
    }),
  );
  return count / ((performance.now() - began) / 1000);
}

/** Only checks signatures of the same kind, as a measure of this machine. @returns checks per second. */
async function checkSignatures(count: number): Promise<number> {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const data = randomBytes(69);
  const signature = sign("sha256", data, privateKey);
  const began = performance.now();
  for (let each = 0; each < count; each += 1) verify("sha256", data, publicKey, signature);
  return count / ((performance.now() - began) / 1000);
}

function signIns(side: Side, phones: Stage["phones"]) {
  const base = side.ready["base"] ?? "";
  const query = { client_id: CLIENT.client_id, response_type: "code", redirect_uri: CALLBACK };
  const url = `${base}/oauth2/authorize?${new URLSearchParams(query).toString()}`;
  return (count: number) =>
    metered(side, async () => ({
      perSecond: await signInMany({ url, bases: [base], browsers: BROWSERS, count, phones }),
      answered: count,
    }));
}

export const passkeys: Measurement = {
  name: "passkeys",
  async run(effort, folder) {
    const file = join(folder, "passkey.db");
    const side = await startSide("service", { options: { file, host: "localhost" } });
    try {
      const stage = await openStage(side.ready["base"] ?? "", file);
      try {
        const signIn = signIns(side, stage.phones);
        await signIn(WARM_UP);
        await check(stage, WARM_UP);
        const count = effort.signIns * MORE;
        const rates = await inTurns(effort, {
          whole: rate(() => signIn(count)),
          check: () => check(stage, count),
          signatures: () => checkSignatures(count),
        });
        const { cpu } = await signIn(count);
        return [
          {
            work: "whole sign-ins by passkey",
            against: "on one core",
            value: rates.whole,
            unit: "/s",
            raw: `${perSecond(rates.whole)}; CPU of one: ${Math.round((cpu * 1000) / count)} µs`,
          },
          {
            work: "a passkey checked, and its use stored",
            against: "without HTTP",
            value: rates.check,
            unit: "/s",
            target: 1_500,
            raw: `${perSecond(rates.check)} to ${perSecond(rates.signatures)} bare signatures`,
          },
        ];
      } finally {
        await stage.close();
      }
    } finally {
      await side.stop();
    }
  },
};
