/** Accounts as an organization has them: a few names that many people share, and many that few have. Always the same. */
import { hash, type KeyObject } from "node:crypto";
import { searchRecord } from "../../accounts/search/search-words.ts";
import type { RecordData } from "../../adapters/record-store.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { ACCOUNT, IDENTIFIER, SIGN_IN_NAME, USER_ID } from "../../records/directory/directory-kinds.ts";

/** Random numbers from 0 to 1 that are the same in every run (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const FIRST_NAMES =
  "maria anna peter jan thomas michael anna laura julia paul katarzyna piotr andrzej olena oleksandr iryna sofia david daniel emma lena " +
  "martin stefan monika agnieszka krzysztof tomasz pawel natalia viktoria andrii dmytro yulia robert richard john james mary linda susan " +
  "karen lisa nancy betty sandra ashley emily jack harry oliver george noah leo mia hannah clara felix max";
const SURNAMES =
  "müller schmidt schneider fischer weber meyer wagner becker nowak kowalski wiśniewski wójcik kowalczyk kamiński lewandowski zieliński " +
  "szymański woźniak melnyk shevchenko boyko kovalenko bondarenko tkachenko kravchenko smith johnson williams brown jones garcia miller " +
  "davis rodriguez martinez hernandez lopez gonzalez wilson anderson thomas taylor moore jackson martin lee nguyen tran kim patel singh";
const DOMAINS = "gmail.com outlook.com yahoo.com web.de gmx.de wp.pl onet.pl ukr.net hotmail.com icloud.com";
const ENDINGS = [
  "",
  "",
  "ski",
  "ska",
  "sen",
  "son",
  "mann",
  "er",
  "enko",
  "ez",
  "ova",
  "berg",
  "ini",
  "o'",
  "-",
];
const LETTERS = { consonants: "bcdfghklmnprstvwz", vowels: "aeiouy" };

/** A name that nobody has chosen, of two or three syllables. */
function coined(what: string, index: number): string {
  const bytes = hash("sha256", `${what} ${index}`, "buffer");
  const pick = (from: string, at: number): string => from[(bytes[at] ?? 0) % from.length] ?? "";
  const { consonants, vowels } = LETTERS;
  const syllables = Array.from(
    { length: 2 + ((bytes[30] ?? 0) % 2) },
    (_each, at) => pick(consonants, 2 * at) + pick(vowels, 2 * at + 1),
  ).join("");
  const ending = what === "surname" ? (ENDINGS[(bytes[31] ?? 0) % ENDINGS.length] ?? "") : "";
  const letter = pick(consonants, 20);
  if (ending === "o'") return `o'${syllables}`;
  return ending === "-" ? `${syllables}-${coined("second", index)}` : syllables + letter + ending;
}

/** How many texts there are, and how quickly they get rarer with their rank. */
interface Spread {
  readonly count: number;
  readonly flatness: number;
  readonly steepness: number;
}

/** Picks texts by their rank. */
function ranked(
  what: string,
  known: string,
  { count, flatness, steepness }: Spread,
): (random: number) => string {
  const texts = known.split(" ");
  const sums = new Float64Array(count);
  let total = 0;
  for (let rank = 0; rank < count; rank += 1) sums[rank] = total += (rank + flatness) ** -steepness;
  return (random) => {
    let [low, high] = [0, count - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((sums[middle] ?? 0) < random * total) low = middle + 1;
      else high = middle;
    }
    return texts[low] ?? coined(what, low);
  };
}

const capital = (text: string): string =>
  text.replaceAll(/(?<![\p{L}'])\p{L}/gu, (letter) => letter.toUpperCase());
const plain = (text: string): string => text.normalize("NFD").replaceAll(/[^a-z-]/gu, "");

/** Makes accounts, each unlike all that it has made before. */
export function peopleMaker(): (index: number) => AccountRecord {
  const random = randomFrom(1);
  const firstName = ranked("first name", FIRST_NAMES, { count: 2_000, flatness: 8, steepness: 1.1 });
  const surnameOf = ranked("surname", SURNAMES, { count: 100_000, flatness: 10, steepness: 0.95 });
  const domainOf = ranked("domain", DOMAINS, { count: 20_000, flatness: 1, steepness: 1.1 });
  const taken = new Set<string>();
  const free = (make: (number: string) => string): string => {
    for (let number = ""; ; number = String(Math.floor(random() * 10_000))) {
      const name = make(number);
      if (taken.has(name)) continue;
      taken.add(name);
      return name;
    }
  };
  return (index) => {
    const [first, last] = [firstName(random()), surnameOf(random())];
    const [given, family] = [plain(first), plain(last)];
    const known = domainOf(random());
    const domain = known.includes(".") ? known : `${known}.example`;
    const locals = [
      `${given}.${family}`,
      `${given}.${family}`,
      `${given}${family}`,
      `${given.slice(0, 1)}.${family}`,
      `${family}.${given}`,
      coined("nickname", Math.floor(random() * 200_000)),
    ];
    const local = locals[Math.floor(random() * locals.length)] ?? "";
    const email = free((number) => `${local}${number}@${domain}`);
    const username = random() < 0.3 ? free((number) => `${given.slice(0, 1)}${family}${number}`) : null;
    const hex = hash("sha256", `account ${index}`);
    const sub = `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
    const at = 1_700_000_000 + index;
    return {
      sub,
      user_id: index + 1,
      email,
      email_verified: true,
      username,
      name: capital(first),
      surname: capital(last),
      date_of_birth: null,
      gender: null,
      portal: random() < 0.5 ? "main" : null,
      services: random() < 0.1 ? { rare: null, news: null } : { news: null },
      ways: {
        password: {
          hash: `$argon2id$v=19$m=19456,t=2,p=1$${hex.slice(0, 22)}$${hex.slice(0, 43)}`,
          generation: 0,
        },
      },
      sessions_generation: 0,
      tokens_generation: 0,
      service_generations: {},
      client_generations: {},
      consents: {},
      ...(random() < 0.01 && { disabled: true }),
      created_at: at,
      updated_at: at,
    };
  };
}

/** The records of an account, the account first. @param key of the hashes in the index of the search. */
export function recordsOf(account: AccountRecord, key: KeyObject): RecordData[] {
  const { sub, user_id, email, username } = account;
  return [
    ACCOUNT.record(account),
    searchRecord(account, key),
    SIGN_IN_NAME.record({ sub }, { key: email }),
    ...(username === null ? [] : [SIGN_IN_NAME.record({ sub }, { key: username })]),
    USER_ID.record({ sub }, { key: String(user_id) }),
    IDENTIFIER.record({ sub }),
  ];
}
