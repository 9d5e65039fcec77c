/** What to do about a store that can't be reached, by what it or the system said. */
import type { StorageUnavailable } from "../../core/errors.ts";

const WRONG_AUTHORITY =
  "The certificate of the server is signed by an authority that is not trusted: name it in the address, or in NODE_EXTRA_CA_CERTS.";

/** `reason` of the error → a sentence for the operator. `docs/reference/doctor.md` prints it. */
export const ADVICE: Readonly<Record<string, string>> = {
  // The system.
  ECONNREFUSED: "Nothing listens there: start the server, or correct its port.",
  ENOTFOUND: "The host name is unknown here: correct it, or the name server of this machine.",
  EAI_AGAIN: "The name server does not answer: repair name resolution on this machine.",
  ETIMEDOUT: "No answer comes back: check the address, and the firewalls on the way.",
  EHOSTUNREACH: "The machine can't be reached: check the address, the routes and the firewalls.",
  ECONNRESET: "The connection was cut: check whether the server restarts, and whether one side expects TLS.",
  ENOSPC: "The disk is full: make room. A running process recovers by itself.",
  "no answer":
    "The connection breaks, or no answer comes: look whether the server restarts, and at its load.",
  timeout:
    "It accepts connections but does not answer: look at its load, its disk and its locks. PgBouncer waits if default_pool_size is too small.",
  // TLS.
  DEPTH_ZERO_SELF_SIGNED_CERT: WRONG_AUTHORITY,
  SELF_SIGNED_CERT_IN_CHAIN: WRONG_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: WRONG_AUTHORITY,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: WRONG_AUTHORITY,
  ERR_TLS_CERT_ALTNAME_INVALID:
    "The certificate of the server is for another name: connect to one of its names, or give it a certificate for this one.",
  CERT_HAS_EXPIRED: "Renew the certificate of the server.",
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    "The server asks for a certificate of the service: name it and its key in the address.",
  // PostgreSQL.
  "28P01": "Correct the user or the password.",
  "28000": "Correct the user or the password, or allow this machine in pg_hba.conf.",
  "53300":
    "PostgreSQL has no connection left: end idle ones, raise max_connections, or put PgBouncer in front. Each process opens a pool of its own.",
  "53100": "PostgreSQL's disk is full: make room there.",
  "53200": "PostgreSQL is out of memory: give it more, or lower work_mem and the number of connections.",
  "57P03": "PostgreSQL is starting or stopping: try again in a moment.",
  "25006":
    "This PostgreSQL is a standby, or takes no writes: name the primary, or all hosts of which one becomes the primary.",
  "08P01":
    "PgBouncer refuses the connection, and its log says why: it does not know the database or the user, has no connection left (max_client_conn), or waited too long for one (default_pool_size).",
  "42P05":
    "A prepared statement exists already, because PgBouncer shares sessions: set pool_mode=session and server_reset_query=DISCARD ALL there, or pool_mode=transaction in the address.",
  "26000":
    "A prepared statement is unknown, because PgBouncer shares sessions: set pool_mode=session and server_reset_query=DISCARD ALL there, or pool_mode=transaction in the address.",
  // Redis.
  OOM: "Redis has no memory left: raise maxmemory, and see which keys grow.",
  READONLY: "This Redis is a replica and takes no writes: name the primary.",
  NOAUTH: "Redis asks for a password: put it into the address.",
  WRONGPASS: "Correct the user or the password.",
  NOPERM: "The user of Redis lacks a right: give it those of docs/operate/set-up/redis.md.",
  MISCONF: "Redis can't save to its disk, so it takes no writes: look at its log and its disk.",
  LOADING: "Redis is still loading its data: try again in a moment.",
  NOREPLICAS:
    "The primary has too few replicas for min-replicas-to-write: start them, or find out what keeps them away.",
  CLUSTERDOWN: "Part of the Redis cluster is down: start its nodes, or find out what keeps them apart.",
  ASK: "Redis is moving the keys to another node: finish it, with redis-cli --cluster fix if it was broken off.",
  UNKNOWN_PRIMARY: "Put the name that the sentinels have for the primary into ?master=.",
  replicas:
    "Fewer replicas than the address says have confirmed a write: start them, or find out what keeps them away.",
  // SQLite.
  "database or disk is full": "The disk is full: make room. A running process recovers by itself.",
  locked: "Another process holds the lock of the database: end it, or wait until it is done.",
};

/** For a reason that has no sentence of its own. */
const OTHERWISE = "Start it, and check its address, the firewall and the password.";

export function adviceFor({ reason }: Pick<StorageUnavailable, "reason">): string {
  return reason !== undefined && Object.hasOwn(ADVICE, reason) ? (ADVICE[reason] ?? OTHERWISE) : OTHERWISE;
}
