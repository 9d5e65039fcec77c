/** Which notifications a receiver has handled: they come at least once, so some come again. */

/**
 * Where handled notifications are remembered. In a table of the receiver's own database they survive a restart, and
 * several processes share them. Keep them for as long as the service may send again: four days by itself, 90 when an
 * operator does it.
 */
export interface SeenNotifications {
  /** Whether the notification with this `webhook-id` was handled. */
  has(id: string): boolean | Promise<boolean>;
  /** Remembers it, after it was handled. Adding it twice is no error. */
  add(id: string): void | Promise<void>;
}

/** In memory, for one process: the newest ones. @param limit how many; default 100,000, about 15 MB. */
export function rememberInMemory(limit = 100_000): SeenNotifications {
  const ids = new Set<string>();
  return {
    has: (id) => ids.has(id),
    add(id) {
      ids.add(id);
      if (ids.size <= limit) return;
      // A set keeps the order in which things came.
      for (const oldest of ids) {
        ids.delete(oldest);
        return;
      }
    },
  };
}
