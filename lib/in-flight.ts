/**
 * What has begun and not ended, where that is thousands of things in a second. A `Set` has another table from time to
 * time, and each table leads to the next one: once a table is old to the garbage collector, all that were ever in a
 * later one are kept until everything is looked at, and are copied about until then.
 */

/** Something under way, to be taken away by. */
export interface Place<T> {
  readonly what: T;
  /** Where it is in the list; -1 once it is over. */
  at: number;
}

export class InFlight<T> {
  readonly #places: Place<T>[] = [];

  add(what: T): Place<T> {
    const place = { what, at: this.#places.length };
    this.#places.push(place);
    return place;
  }

  /** It is over; more than once is the same as once. */
  end(place: Place<T>): void {
    if (place.at < 0) return;
    const last = this.#places.pop();
    if (last !== undefined && last !== place) {
      this.#places[place.at] = last;
      last.at = place.at;
    }
    place.at = -1;
  }

  /** All that is under way now, in no order; what ends meanwhile stays in the list. */
  all(): Place<T>[] {
    return [...this.#places];
  }
}
