import type { BodyReader, Exchange, HeadListener } from "./exchange.ts";
import { StreamBody } from "./stream-body.ts";
import type { SendRequest, Transport } from "./transport.ts";

/** An exchange over `fetch`. Closing does both, abort and cancel, since runtimes differ in which of them closes the socket. */
export class FetchExchange implements Exchange {
  readonly #controller = new AbortController();
  #response: Response | undefined;
  #body: StreamBody | undefined;

  constructor(fetch: Transport["fetch"], url: string, request: SendRequest, listener: HeadListener) {
    const { body, fresh, shared } = request;
    const headers = shared === undefined ? request.headers : shared.with(request.headers);
    fetch(url, { method: "POST", headers, body: body.toString(), fresh, signal: this.#controller.signal }).then(
      (response) => {
        this.#response = response;
        listener.head(response);
      },
      (error: unknown) => listener.failed(error),
    );
  }

  read(reader: BodyReader): void {
    const stream = this.#response!.body;
    if (this.#body === undefined && stream !== null) this.#body = new StreamBody(stream);
    if (this.#body === undefined) queueMicrotask(() => reader.chunk(undefined));
    else this.#body.read(reader);
  }

  text(): Promise<string> {
    return this.#response!.text();
  }

  close(): void {
    this.#controller.abort();
    this.#body?.cancel();
  }
}
