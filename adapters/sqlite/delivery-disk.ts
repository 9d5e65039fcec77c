/**
 * When claims and results have to wait for the disk. A loss of power may undo what does not wait, and then:
 * - nobody must have been told of a change that is undone: a claim waits, unless its delivery is known to be on the disk;
 * - nothing must have overtaken what waits again: a claim waits, unless what came before it in its lane was delivered;
 * - a delivery whose success is undone goes again, with the same id, as after a worker that died: it need not wait.
 */
import type { Connection } from "./connection.ts";
import { numberAt } from "./rows.ts";

/** A delivery that is claimed inside a transaction. */
export interface Claimed {
  readonly position: number;
  /** What came before it in its lane was delivered, or there was nothing. */
  readonly follows: boolean;
}

export class DeliveryDisk {
  readonly #connection: Connection;
  readonly #highest: () => number;
  /** Deliveries up to this position are on the disk. */
  #known = 0;

  constructor(connection: Connection) {
    this.#connection = connection;
    const highest = connection.first("SELECT coalesce(max(position), 0) FROM deliveries");
    this.#highest = () => numberAt(highest() ?? {}, 0);
  }

  /**
   * Writes; waits for the disk if something that was claimed has to, or if the result `lasts`.
   * @param work is given what is to be called with all that it claims.
   */
  async write<T>(work: (note: (claimed: Claimed) => void) => T, lasts: (result: T) => boolean): Promise<T> {
    let waits = false;
    let highest = 0;
    const note = ({ position, follows }: Claimed): void => {
      // Whatever is stored by now, in whichever process, is on the disk when this transaction is.
      if (position > this.#known) highest ||= this.#highest();
      waits ||= highest > 0 || !follows;
    };
    const result = await this.#connection.write(() => work(note), { lasts: (done) => waits || lasts(done) });
    this.#known = Math.max(this.#known, highest);
    return result;
  }
}
