import { expect, it } from "@jest/globals";
import { assert, constantFrom, property, string } from "fast-check";
import { type PostgresAddress, readPostgresAddress } from "../../config/postgresql-address.ts";
import { readRedisAddress } from "../../config/redis-address.ts";
import {
  addressForm,
  addressProblem,
  backendOf,
  backupTools,
  databaseFile,
  describeStore,
  isInMemory,
  secretFiles,
  suits,
  usualAddress,
} from "../../config/storage-address.ts";

const NOTHING = {
  kind: "server",
  tls: undefined,
  username: undefined,
  password: undefined,
  passwordFile: undefined,
  db: 0,
  prefix: undefined,
  replicas: 0,
  sentinel: undefined,
};

it.each([
  ["sqlite:./sign-in.db", "sqlite", "./sign-in.db"],
  ["sqlite:/data/a:b?mode=memory.db", "sqlite", "/data/a:b?mode=memory.db"],
  ["sqlite::memory:", "sqlite", undefined],
  ["postgresql://db.example/x", "postgresql", undefined],
  ["postgres://db.example/x", "postgresql", undefined],
  ["mongodb://a.example,b.example/x?replicaSet=rs", "mongodb", undefined],
  ["mongodb+srv://db.example", "mongodb", undefined],
])("%s is an address of %s", (address, backend, file) => {
  expect(addressProblem("storage", address)).toBeUndefined();
  expect([backendOf(address), databaseFile(address)]).toEqual([backend, file]);
  expect(isInMemory(address)).toBe(address === "sqlite::memory:");
});

it.each([
  ["redis://cache.example", /^must be `sqlite:PATH`.* or `mongodb\+srv:\/\/…`$/],
  ["toString:x", /^must be `sqlite:PATH`/],
  ["/var/sign-in.db", /^must be `sqlite:PATH`/],
  ["sqlite:", /^has no path after `sqlite:`$/],
  ["sqlite: a.db", /^has no path of a file/],
  ["sqlite:file:a.db?mode=memory", /^has no path of a file/],
  ["sqlite:folder/", /^has no path of a file/],
  ["sqlite:a\nb.db", /^has no path of a file/],
  ["mongodb://", /^is not a MongoDB connection string$/],
  ["mongodb://a b/x", /^is not a MongoDB/],
])("%j is no address of a storage", (address, problem) => {
  expect(addressProblem("storage", address)).toMatch(problem);
});

const at = (host: string, port = 5432): Pick<PostgresAddress, "hosts"> => ({ hosts: [{ host, port }] });
const POSTGRES = {
  ...at("db.example"),
  wanted: "any",
  user: undefined,
  password: undefined,
  passwordFile: undefined,
  database: undefined,
  poolSize: 10,
  poolMode: "session",
  applicationName: "sign-in-service",
  settings: [],
  connectTimeoutSeconds: undefined,
  channelBinding: "disable",
  tls: undefined,
};
const TLS = { mode: "verify-full", ca: undefined, cert: undefined, key: undefined };

it.each([
  ["postgresql://db.example", POSTGRES],
  [
    "postgres://u:p%40ss@[::1]:5433/a%20b",
    { ...POSTGRES, ...at("::1", 5433), user: "u", password: "p@ss", database: "a b" },
  ],
  [
    "postgresql://u@%2Fvar%2Frun%2Fpostgresql/x",
    { ...POSTGRES, ...at("/var/run/postgresql"), user: "u", database: "x" },
  ],
  [
    "postgresql://db.example?pool_size=25&password_file=/run/secrets/db",
    { ...POSTGRES, poolSize: 25, passwordFile: "/run/secrets/db" },
  ],
  ["postgresql://db.example?pool_mode=session", POSTGRES],
  [
    "postgresql://db.example?options=-c%20search_path%3Db&pool_mode=transaction",
    { ...POSTGRES, poolMode: "transaction", settings: [["search_path", "b"]] },
  ],
  [
    "postgresql://db.example?application_name=a&options=-c%20search_path%3Db",
    { ...POSTGRES, applicationName: "a", settings: [["search_path", "b"]] },
  ],
  [
    "postgresql://db.example?options=-csearch_path%3Da,b%20--work-mem%3D64MB%20%20-c%20sign_in.note%3Da%5C%20%5C%5Cb%3Dc",
    {
      ...POSTGRES,
      settings: [
        ["search_path", "a,b"],
        ["work_mem", "64MB"],
        ["sign_in.note", "a \\b=c"],
      ],
    },
  ],
  [
    "postgresql://u:p@/x?host=/var/run/postgresql",
    { ...POSTGRES, ...at("/var/run/postgresql"), user: "u", password: "p", database: "x" },
  ],
  [
    "postgresql:///x?host=/cloudsql/project:region:instance&port=5433",
    { ...POSTGRES, ...at("/cloudsql/project:region:instance", 5433), database: "x" },
  ],
  [
    "postgresql://u@:5433/x?host=db.internal",
    { ...POSTGRES, ...at("db.internal", 5433), user: "u", database: "x" },
  ],
  [
    "postgresql://a:5433,b.example,[::1]:5434/x",
    {
      ...POSTGRES,
      hosts: [
        { host: "a", port: 5433 },
        { host: "b.example", port: 5432 },
        { host: "::1", port: 5434 },
      ],
      wanted: "read-write",
      database: "x",
    },
  ],
  [
    "postgresql://u:p,q@/x?host=/run/a,/run/b&port=5433",
    {
      ...POSTGRES,
      hosts: [
        { host: "/run/a", port: 5433 },
        { host: "/run/b", port: 5433 },
      ],
      wanted: "read-write",
      user: "u",
      password: "p,q",
      database: "x",
    },
  ],
  [
    "postgresql:///x?host=a,a&port=1,2&target_session_attrs=any",
    {
      ...POSTGRES,
      hosts: [
        { host: "a", port: 1 },
        { host: "a", port: 2 },
      ],
      database: "x",
    },
  ],
  ["postgresql://db.example?target_session_attrs=primary", { ...POSTGRES, wanted: "primary" }],
  ["postgresql://db.example?connect_timeout=10", { ...POSTGRES, connectTimeoutSeconds: 10 }],
  ["postgresql://db.example?connect_timeout=0", POSTGRES],
  [
    "postgresql://db.example?sslmode=verify-full&channel_binding=require",
    { ...POSTGRES, channelBinding: "require", tls: TLS },
  ],
  ["postgresql://db.example?channel_binding=prefer", { ...POSTGRES, channelBinding: "prefer" }],
  ["postgresql://db.example?sslmode=verify-full", { ...POSTGRES, tls: TLS }],
  ["postgresql://db.example?sslmode=no-verify", { ...POSTGRES, tls: { ...TLS, mode: "no-verify" } }],
  ["postgresql://db.example?sslmode=disable", POSTGRES],
  ["postgresql://db.example?sslrootcert=ca.pem", { ...POSTGRES, tls: { ...TLS, ca: "ca.pem" } }],
  [
    "postgresql://db.example?sslmode=verify-ca&sslrootcert=ca.pem&sslcert=c.pem&sslkey=k.pem",
    { ...POSTGRES, tls: { mode: "verify-ca", ca: "ca.pem", cert: "c.pem", key: "k.pem" } },
  ],
])("reads %s", (text, address) => {
  expect(readPostgresAddress(text)).toEqual(address);
});

it.each([
  ["sslmod=verify-full", /^has the unknown parameter `sslmod`; it knows these: host, port, .*, sslmode, /],
  ["statement_timeout=0", /^has the unknown parameter `statement_timeout`/],
  ["ssl=true", /^has the unknown parameter `ssl`/],
  ["sslmode=disable&sslmode=verify-full", /^has the parameter `sslmode` twice$/],
  ["pass&word@host/x", /^knows only these parameters, each once: host, port, /],
  ["host=/var/run/postgresql", /^has two hosts/],
  ["options=-c", /^needs `options` of the form `-c NAME=VALUE`$/],
  ["options=-c%20-c%20a%3Db", /^needs `options`/],
  ["options=search_path%3Db", /^needs `options`/],
  ["options=-f%20s", /^needs `options`/],
  ["options=-c%20a'%3Db", /^needs `options`/],
  ["connect_timeout=1.5", /^needs a `connect_timeout` in whole seconds$/],
  ["channel_binding=yes", /^needs a `channel_binding` of `require`, `prefer` or `disable`$/],
  ["channel_binding=require", /^needs an `sslmode` with TLS for `channel_binding=require`$/],
  ["__proto__=secret", /^knows only/],
  ["sslmode=require", /^needs an `sslmode` of `verify-full`/],
  ["sslmode=prefer", /^needs an `sslmode`/],
  ["sslmode=", /^needs an `sslmode`/],
  ["sslmode=toString", /^needs an `sslmode`/],
  ["sslmode=verify-ca", /^needs `sslrootcert`/],
  ["sslmode=disable&sslrootcert=ca.pem", /^has files for TLS/],
  ["sslcert=c.pem", /^needs `sslcert` and `sslkey` together$/],
  ["sslkey=k.pem&sslmode=verify-full", /^needs `sslcert` and `sslkey` together$/],
  ["pool_size=0", /^needs a `pool_size` from 1 to 1000$/],
  ["pool_size=1001", /^needs a `pool_size`/],
  ["pool_size=1e2", /^needs a `pool_size`/],
  ["pool_size=-5", /^needs a `pool_size`/],
  ["pool_mode=", /^needs a `pool_mode` of `session` or `transaction`$/],
  ["pool_mode=Transaction", /^needs a `pool_mode`/],
  ["pool_mode=statement", /^needs a `pool_mode`/],
  ["pool_mode=transaction'%3B--", /^needs a `pool_mode`/],
  ["pool_mode=session&pool_mode=transaction", /^has the parameter `pool_mode` twice$/],
  ["pool_mode=transaction", /^needs `options` with the schema of the storage, and without other settings/],
  ["pool_mode=transaction&options=-c%20jit%3Don", /^needs `options` with the schema/],
  ["pool_mode=transaction&options=-c%20search_path%3Da%20-c%20jit%3Don", /^needs `options` with the schema/],
  [
    "pool_mode=transaction&options=-c%20search_path%3Da%20-c%20search_path%3Db",
    /^needs `options` with the schema/,
  ],
  ["password_file=/run/secrets/db", /^has both a password and a `password_file`$/],
])("refuses postgresql://…?%s", (query, problem) => {
  expect(addressProblem("storage", `postgresql://u:secret@db.example/x?${query}`)).toMatch(problem);
});

it.each([
  ["postgresql:///x?host=/run&sslmode=verify-full", /^has TLS for a Unix socket/],
  ["postgresql://h:1/x?port=2", /^has two ports$/],
  ["postgresql://h/x?port=0", /^needs a `port` from 1 to 65535$/],
  ["postgresql://h/x?port=", /^needs a `port` from 1 to 65535$/],
  ["postgresql://a,b/x?port=1,2,3", /^needs one `port` for all hosts, or one for each$/],
  ["postgresql://a,b/x?port=1,", /^needs a `port` from 1 to 65535$/],
  ["postgresql://a:1,b/x?port=2", /^has two ports$/],
  ["postgresql://a,b/x?host=c", /^has two hosts/],
  ["postgresql://a,,b/x", /^has an empty name among its hosts$/],
  ["postgresql://a,/x", /^has an empty name/],
  ["postgresql:///x?host=a,", /^has an empty name/],
  ["postgresql://a,:5433/x", /^has an empty name/],
  ["postgresql://a,A:5432/x", /^has the same host twice$/],
  [`postgresql://${"abcdefghi".split("").join(",")}/x`, /^has more than 8 hosts$/],
  ["postgresql://a,/run/x?sslmode=verify-full", /^has an empty name/],
  ["postgresql:///x?host=a,/run&sslmode=verify-full", /^has TLS for a Unix socket/],
  ["postgresql://a,b/x?target_session_attrs=standby", /^needs a `target_session_attrs` of `read-write`, /],
  ["postgresql://a,b/x?target_session_attrs=read-only", /^needs a `target_session_attrs`/],
  ["postgresql://a,b/x?target_session_attrs=prefer-standby", /^needs a `target_session_attrs`/],
  ["postgresql://a,b/x?target_session_attrs=toString", /^needs a `target_session_attrs`/],
  ["postgresql://a,b/x?target_session_attrs=", /^needs a `target_session_attrs`/],
  ["postgresql://h/x#y", /^has a `#`/],
])("refuses %s", (text, problem) => {
  expect(addressProblem("storage", text)).toMatch(problem);
});

it.each([
  "postgresql://",
  "postgresql://u@/x",
  "postgresql:///x",
  "postgresql://h:none/x",
  "postgresql://h h/x",
  "postgresql://u:%zz@h/x",
  "postgresql://a,%zz/x",
  "postgresql://a,b:none/x",
  "postgresql://a,b:99999/x",
  "postgresql://a,[::1/x",
  "postgresql://a,b c/x",
])("refuses %s", (text) => {
  expect(addressProblem("storage", text)).toMatch(
    /^(?:is not a `postgresql:\/\/` URL|has a part in which a `%`)/,
  );
});

it("never throws, and repeats nothing of an address", () => {
  const scheme = constantFrom(
    "sqlite:",
    "postgresql://",
    "postgres://",
    "mongodb://",
    "redis://",
    "rediss://",
    "",
  );
  const rest = string().map((text) => `${text}SECRET${text}`);
  assert(
    property(scheme, rest, (start, end) => {
      for (const problem of [
        addressProblem("storage", start + end),
        addressProblem("artifacts", start + end),
      ])
        expect(problem ?? "").not.toContain("SECRET");
    }),
  );
});

const NO_FILES = { ca: undefined, cert: undefined, key: undefined };

const host = (name: string, port = 6379): { host: string; port: number } => ({ host: name, port });

it.each([
  ["redis://cache.example", { hosts: [host("cache.example")] }],
  ["redis://cache.example/", { hosts: [host("cache.example")] }],
  ["rediss://127.0.0.1:6380/15", { tls: NO_FILES, hosts: [host("127.0.0.1", 6380)], db: 15 }],
  [
    "rediss+cluster://news@h?password_file=/p&ca_file=/ca&cert_file=/cert&key_file=/key",
    {
      kind: "cluster",
      tls: { ca: "/ca", cert: "/cert", key: "/key" },
      username: "news",
      passwordFile: "/p",
      hosts: [host("h")],
    },
  ],
  ["redis://[::1]:7000", { hosts: [host("::1", 7000)] }],
  ["redis://:p%40s%3As@h", { hosts: [host("h")], password: "p@s:s" }],
  [
    "redis://news:pw@h?prefix=news:",
    { hosts: [host("h")], username: "news", password: "pw", prefix: "news:" },
  ],
  ["redis://h?replicas=1", { hosts: [host("h")], replicas: 1 }],
  [
    "rediss+sentinel://news:p,w@s1,s2:7000,[::1]/2?master=main&prefix=news:",
    {
      kind: "sentinel",
      tls: NO_FILES,
      username: "news",
      password: "p,w",
      db: 2,
      prefix: "news:",
      hosts: [host("s1", 26_379), host("s2", 7000), host("::1", 26_379)],
      sentinel: { name: "main", user: undefined, password: undefined, passwordFile: undefined },
    },
  ],
  [
    "redis+sentinel://s?master=main&sentinel_user=u&sentinel_password_file=/run/secrets/s",
    {
      kind: "sentinel",
      hosts: [host("s", 26_379)],
      sentinel: { name: "main", user: "u", password: undefined, passwordFile: "/run/secrets/s" },
    },
  ],
  [
    "redis+cluster://a,b:7001?replicas=2",
    { kind: "cluster", hosts: [host("a"), host("b", 7001)], replicas: 2 },
  ],
])("reads %s [D-REDIS-4]", (text, address) => {
  expect(readRedisAddress(text)).toEqual({ ...NOTHING, ...address });
});

it.each([
  ["redis://a,b", /^has several hosts/],
  ["redis+sentinel://a,b", /^needs `\?master=`/],
  ["redis+sentinel://a?master=", /^needs `\?master=`/],
  ["redis+sentinel://a?master=SECRET\u00E4", /^needs `\?master=`/],
  ["redis+sentinel://a,,b?master=m", /^is not a/],
  ["redis+sentinel://a,A:26379?master=m", /^has the same host twice$/],
  ["redis+sentinel://a?master=m&sentinel_password=SECRET&sentinel_password_file=/SECRET", /^has both/],
  ["redis+sentinel://a?master=m&master=SECRET", /^has an option twice$/],
  ["redis://u:SECRET@a?password_file=/SECRET", /^has both a password and a `password_file`$/],
  ["redis://a?ca_file=/SECRET", /^has files for TLS, which only `rediss` uses$/],
  ["rediss://a?key_file=/SECRET", /^needs `cert_file` and `key_file` together$/],
  ["rediss+cluster://a?sentinel_password=SECRET", /^knows no other option/],
  [
    `redis+cluster://${Array.from({ length: 21 }, (_, index) => `h${index}`).join()}`,
    /^has more than 20 hosts$/,
  ],
  ["redis+cluster://a/1", /^has a number of a database/],
  ["redis+cluster://a?master=SECRET", /^knows no other option/],
  ["redis+cluster://a?replicas=10", /^needs a number of `replicas`/],
  ["redis+sentinels://a?master=m", /^is not a/],
  ["redis+cluster://a:99999", /^is not a/],
])("refuses %s [D-REDIS-4]", (text, problem) => {
  const read = readRedisAddress(text);
  expect(read).toMatch(problem);
  expect(read).not.toContain("SECRET");
});

it.each([
  "http://cache.example",
  "redisss://cache.example",
  "redi://u:secret@h",
  "redis:",
  "redis:///0",
  "cache",
])("refuses %s", (text) => {
  expect(readRedisAddress(text)).toBe("is not a `redis://` or `rediss://` URL with a host");
});

const EXAMPLES = [
  ["sqlite:./sign-in.db", ["storage"], "sqlite:./sign-in.db"],
  ["postgresql://u:SECRET@db.example/x?pool_size=5", ["storage"], "postgresql://db.example/x"],
  ["postgresql://u:SECRET@/x?host=/run/pg", ["storage"], "postgresql:///x?host=/run/pg"],
  [
    "postgresql://u:SECRET@a.example:5432,[::1]:5433/x?sslmode=verify-full",
    ["storage"],
    "postgresql://a.example/x or postgresql://[::1]:5433/x",
  ],
  ["mongodb://u:SECRET@a.example,b.example/x?tls=true", ["storage"], "mongodb://a.example,b.example/x"],
  ["mongodb+srv://u:SECRET@db.example/x", ["storage"], "mongodb+srv://db.example/x"],
  ["rediss://u:SECRET@[::1]:7000/3?prefix=a:", ["artifacts", "queue"], "rediss://[::1]:7000/3?prefix=a:"],
  [
    "redis+sentinel://u:SECRET@a,[::1]:1/3?master=m&sentinel_password=SECRET",
    ["artifacts", "queue"],
    "redis+sentinel://a:26379,[::1]:1/3?master=m",
  ],
  ["redis+cluster://u:SECRET@a,b", ["artifacts", "queue"], "redis+cluster://a:6379,b:6379"],
] as const;

it("one table says for which keys an address can stand, and how it is named without its secrets [D-ADDR-1]", () => {
  const KEYS = ["storage", "artifacts", "queue"] as const;
  for (const [address, keys, named] of EXAMPLES) {
    expect(KEYS.filter((key) => suits(key, address))).toEqual(keys);
    expect(KEYS.filter((key) => addressProblem(key, address) === undefined)).toEqual(keys);
    expect(describeStore(address)).toBe(named);
  }
  for (const key of KEYS) {
    const schemes = EXAMPLES.filter(([, keys]) => (keys as readonly string[]).includes(key)).map(
      ([address]) => address.split(":", 1)[0]!,
    );
    for (const scheme of schemes) expect(addressForm(key)).toContain(`\`${scheme}:`);
    expect(usualAddress(key)).toMatch(
      key === "storage" ? /^sqlite:PATH, .* or mongodb:/ : /^redis:.* or rediss:/,
    );
  }
  expect(secretFiles("postgresql://h/x?password_file=/a&sslcert=/b&sslkey=/c")).toEqual([
    ["password_file", "/a"],
    ["sslkey", "/c"],
  ]);
  expect(secretFiles("redis+sentinel://h?master=m&sentinel_password_file=/d")).toEqual([
    ["sentinel_password_file", "/d"],
  ]);
  expect(secretFiles("rediss://h?password_file=/e&ca_file=/f&cert_file=/g&key_file=/k")).toEqual([
    ["password_file", "/e"],
    ["key_file", "/k"],
  ]);
  expect(secretFiles("sqlite:./sign-in.db")).toEqual([]);
  expect(EXAMPLES.map(([address]) => backupTools(address)?.split(":", 1)[0])).toEqual([
    undefined,
    "PostgreSQL",
    "PostgreSQL",
    "PostgreSQL",
    "MongoDB",
    "MongoDB",
    undefined,
    undefined,
    undefined,
  ]);
});
