/** A TCP proxy in front of a server that breaks connections and drops responses on request. */
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

export class Wire {
  #target: number;
  readonly #server: Server;
  readonly #pairs = new Set<readonly [near: Socket, far: Socket]>();
  /** How many connections were made. */
  connections = 0;
  /** Milliseconds by which each answer is delayed. */
  delay = 0;
  /** Milliseconds by which sent data is delayed. End the delay with `cut`, or later data overtakes delayed data. */
  lag = 0;
  #isDown = false;
  #loss: { left: number; readonly lost: () => void } | undefined;

  private constructor(target: number) {
    this.#target = target;
    this.#server = createServer((near) => this.#join(near));
  }

  /** @param target a port of the loopback. */
  static async to(target: number): Promise<Wire> {
    const wire = new Wire(target);
    await new Promise<void>((resolve) => void wire.#server.listen(0, "127.0.0.1", resolve));
    return wire;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Loses the answer with this number from now on, with all connections. Resolves when that has happened. */
  loseAnswer(number: number): Promise<void> {
    return new Promise((resolve) => {
      this.#loss = { left: number, lost: resolve };
    });
  }

  /** Cancels `loseAnswer`. @returns `true` if it had not happened yet. */
  loseNothing(): boolean {
    const was = this.#loss !== undefined;
    this.#loss = undefined;
    return was;
  }

  /** Ends all connections and accepts no more until it is `up` again. */
  down(): void {
    this.#isDown = true;
    this.cut();
  }

  up(): void {
    this.#isDown = false;
  }

  /** New connections lead to this port: the address has moved to another server. */
  leadTo(target: number): void {
    this.#target = target;
  }

  /** Ends all connections. */
  cut(): void {
    for (const [near, far] of this.#pairs) {
      near.destroy();
      far.destroy();
    }
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => void this.#server.close(resolve));
  }

  #join(near: Socket): void {
    if (this.#isDown) {
      near.destroy();
      return;
    }
    this.connections += 1;
    const far = connect(this.#target, "127.0.0.1");
    const pair = [near, far] as const;
    this.#pairs.add(pair);
    near.on("data", (data) => {
      if (this.lag === 0) far.write(data);
      else setTimeout(() => far.write(data), this.lag).unref();
    });
    far.on("data", (data) => {
      const loss = this.#loss;
      if (loss === undefined || (loss.left -= 1) > 0) {
        if (this.delay === 0) near.write(data);
        else setTimeout(() => near.write(data), this.delay).unref();
      } else {
        this.#loss = undefined;
        this.cut();
        loss.lost();
      }
    });
    const end = (): void => {
      this.#pairs.delete(pair);
      near.destroy();
      far.destroy();
    };
    for (const socket of pair) socket.on("error", end).on("close", end);
  }
}
