/** A wire to a server that loses what it is told to lose: connections, and answers on their way back. */
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

export class Wire {
  readonly #target: number;
  readonly #server: Server;
  readonly #pairs = new Set<readonly [near: Socket, far: Socket]>();
  /** How many connections were made. */
  connections = 0;
  #loseAnswer: (() => void) | undefined;

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

  /** The next answer is lost, with all connections; resolves when that has happened. */
  loseNextAnswer(): Promise<void> {
    return new Promise((resolve) => {
      this.#loseAnswer = resolve;
    });
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
    this.connections += 1;
    const far = connect(this.#target, "127.0.0.1");
    const pair = [near, far] as const;
    this.#pairs.add(pair);
    near.on("data", (data) => far.write(data));
    far.on("data", (data) => {
      const lose = this.#loseAnswer;
      this.#loseAnswer = undefined;
      if (lose === undefined) near.write(data);
      else {
        this.cut();
        lose();
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
