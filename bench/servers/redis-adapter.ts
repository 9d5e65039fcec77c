/**
 * The Redis adapter that oidc-provider documents: a hash for consumable models, a string for all others, a list of
 * members for each grant, and one MULTI per write.
 */
import { Redis } from "ioredis";
import type { Adapter, AdapterConstructor, AdapterPayload } from "oidc-provider";

const OF_GRANT: ReadonlySet<string> = new Set(["AccessToken", "AuthorizationCode", "RefreshToken"]);
const CONSUMABLE: ReadonlySet<string> = new Set(["AuthorizationCode", "RefreshToken"]);

const grantKey = (id: string): string => `oidc:grant:${id}`;
const uidKey = (uid: string): string => `oidc:uid:${uid}`;

/** @param url of a running Redis. */
export function redisForOidc(url: string): AdapterConstructor {
  const client = new Redis(url);

  return class RedisAdapter implements Adapter {
    readonly #model: string;

    constructor(model: string) {
      this.#model = model;
    }

    #key(id: string): string {
      return `oidc:${this.#model}:${id}`;
    }

    async upsert(id: string, payload: AdapterPayload, expiresIn?: number): Promise<void> {
      const key = this.#key(id);
      const multi = client.multi();
      const text = JSON.stringify(payload);
      if (CONSUMABLE.has(this.#model)) multi.hset(key, { payload: text });
      else multi.set(key, text);
      if (expiresIn !== undefined) multi.expire(key, expiresIn);
      const { grantId, uid } = payload;
      if (OF_GRANT.has(this.#model) && grantId !== undefined) {
        const members = grantKey(grantId);
        multi.rpush(members, key);
        // The list lives as long as its longest-lived member.
        const left = await client.ttl(members);
        if (expiresIn !== undefined && expiresIn > left) multi.expire(members, expiresIn);
      }
      if (uid !== undefined) {
        multi.set(uidKey(uid), id);
        if (expiresIn !== undefined) multi.expire(uidKey(uid), expiresIn);
      }
      await multi.exec();
    }

    async find(id: string): Promise<AdapterPayload | undefined> {
      const key = this.#key(id);
      if (!CONSUMABLE.has(this.#model)) {
        const text = await client.get(key);
        return text === null ? undefined : (JSON.parse(text) as AdapterPayload);
      }
      const { payload, ...rest } = await client.hgetall(key);
      return payload === undefined ? undefined : { ...rest, ...(JSON.parse(payload) as AdapterPayload) };
    }

    async findByUid(uid: string): Promise<AdapterPayload | undefined> {
      const id = await client.get(uidKey(uid));
      return id === null ? undefined : this.find(id);
    }

    async findByUserCode(): Promise<undefined> {
      return undefined;
    }

    async consume(id: string): Promise<void> {
      await client.hset(this.#key(id), "consumed", Math.floor(Date.now() / 1000));
    }

    async destroy(id: string): Promise<void> {
      await client.del(this.#key(id));
    }

    async revokeByGrantId(grantId: string): Promise<void> {
      const members = await client.lrange(grantKey(grantId), 0, -1);
      await client.del(...members, grantKey(grantId));
    }
  };
}
