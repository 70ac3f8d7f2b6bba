// SPDX-License-Identifier: Apache-2.0
/**
 * Bytes to the daemon and back: HTTP/1.1 over TCP, TLS or a unix socket.
 *
 * Where node:http can be had (Node, Bun, Deno) it is used, for two reasons: it reaches unix sockets, and its replies may be
 * silent for as long as a program runs, where Node's fetch gives up after five minutes. Elsewhere, or when the caller brings
 * one, it is fetch. A reply that streams owns its connection until it is read to its end or closed.
 */
import type * as NodeHttp from "node:http";
import { ClocheError, ConnectionFailed, TimedOut, errorOfBody } from "./errors.js";
import { locate } from "./private.js";
import { type Endpoint, type Json, type Request, concat, isRepeatable, piecesOf } from "./wire.js";

/** A reply whose body has not been read yet. */
export interface Reply {
  readonly status: number;
  /** The bytes in pieces as they come; to leave the loop ends the reply. */
  pieces(): AsyncIterable<Uint8Array>;
  /** Ends it here; what has not been read is not waited for. */
  close(): void;
}

/** Whoever makes calls: a client, to those that need no more of it. */
export interface Caller {
  open(req: Request): Promise<Reply>;
  call(req: Request): Promise<Json>;
}

export async function readAll(reply: Reply): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  for await (const piece of reply.pieces()) pieces.push(piece);
  return concat(pieces);
}

export interface TransportOptions {
  apiKey?: string;
  traceparent?: string;
  /** Of silence, in milliseconds. */
  timeoutMs: number;
  fetch?: typeof fetch;
}

type Send = (req: Request, headers: Record<string, string>, timeoutMs: number) => Promise<Reply>;

const RETRY_PAUSES_MS = [50, 200, 500, 1000];

export class Transport {
  private send: Promise<Send> | undefined;
  private node: NodeSender | undefined;

  /** Without an endpoint it is found, or started, at the first request. */
  constructor(
    private readonly given: Endpoint | undefined,
    private readonly options: TransportOptions,
  ) {}

  /**
   * Sends it and reads the reply's head. A reply that is an error is thrown. A call that only reads, or that may be made
   * twice, is sent again when the connection broke; no other call ever is.
   */
  async open(req: Request): Promise<Reply> {
    for (const pause of isRepeatable(req) ? RETRY_PAUSES_MS : []) {
      try {
        return await this.openOnce(req);
      } catch (error) {
        const isWorthIt = error instanceof ClocheError && ["connection_failed", "unavailable"].includes(error.code);
        if (!isWorthIt || req.signal?.aborted) throw error;
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
    return this.openOnce(req);
  }

  close(): void {
    this.node?.close();
  }

  private async openOnce(req: Request): Promise<Reply> {
    req.signal?.throwIfAborted();
    this.send ??= this.choose().catch((error) => {
      this.send = undefined; // the next call looks again
      throw error;
    });
    const send = await this.send;
    const headers = { ...req.headers };
    if (this.options.traceparent) headers["traceparent"] = this.options.traceparent;
    if (this.options.apiKey) headers["authorization"] = `Bearer ${this.options.apiKey}`;
    const reply = await send(req, headers, req.timeoutMs ?? this.options.timeoutMs);
    if (reply.status < 400) return reply;
    let body: unknown;
    try {
      body = JSON.parse(new TextDecoder().decode(await readAll(reply)));
    } catch {
      body = undefined;
    }
    throw errorOfBody(reply.status, body);
  }

  private async choose(): Promise<Send> {
    const endpoint = this.given ?? (await locate());
    const own = this.options.fetch;
    const isWorker = globalThis.navigator?.userAgent === "Cloudflare-Workers"; // whose node:http does not stream
    if (!own && !isWorker) {
      try {
        const secure = endpoint.origin.startsWith("https:");
        const http: typeof NodeHttp = secure
          ? ((await import("node:https")) as unknown as typeof NodeHttp)
          : await import("node:http");
        this.node = new NodeSender(http, endpoint);
        return (req, headers, timeoutMs) => this.node!.send(req, headers, timeoutMs);
      } catch {
        // a runtime without Node's modules
      }
    }
    if (endpoint.socketPath)
      throw new ConnectionFailed(`this runtime cannot reach unix:${endpoint.socketPath}`, {
        hint: "set CLOCHE_URL to the daemon's http address",
      });
    const fetching = own ?? globalThis.fetch;
    return (req, headers, timeoutMs) => sendByFetch(fetching, endpoint, req, headers, timeoutMs);
  }
}

class NodeSender {
  private readonly agent: NodeHttp.Agent;

  constructor(
    private readonly http: typeof NodeHttp,
    private readonly endpoint: Endpoint,
  ) {
    const keepAlive = !("Deno" in globalThis); // Deno 2.9 tells of no error on a connection that is used again
    this.agent = new http.Agent({ keepAlive, maxFreeSockets: 16 });
  }

  close(): void {
    this.agent.destroy();
  }

  send(req: Request, headers: Record<string, string>, timeoutMs: number): Promise<Reply> {
    const { origin, socketPath } = this.endpoint;
    return new Promise((resolve, reject) => {
      const options: NodeHttp.RequestOptions = { method: req.method, headers, agent: this.agent };
      if (socketPath) options.socketPath = socketPath;
      if (req.signal) options.signal = req.signal;
      if (req.body instanceof Uint8Array) headers["content-length"] = String(req.body.length);
      const out = this.http.request(origin + req.target, options);
      let answered = false;
      out.on("response", (message) => {
        answered = true;
        resolve(new NodeReply(message, req.signal));
      });
      out.on("error", (error) => {
        if (!answered) reject(this.failure(error, req.signal));
      });
      if (timeoutMs !== Infinity)
        out.setTimeout(timeoutMs, () => out.destroy(new TimedOut("no bytes came within the time given")));
      void feed(out, req.body, () => answered);
    });
  }

  private failure(error: Error, signal: AbortSignal | undefined): unknown {
    if (signal?.aborted) return signal.reason;
    if (error instanceof TimedOut) return error;
    const where = this.endpoint.socketPath ? `unix:${this.endpoint.socketPath}` : this.endpoint.origin;
    return new ConnectionFailed(`cannot talk to ${where}: ${error.message}`, { cause: error, hint: tlsHint(error) });
  }
}

/** What Node and OpenSSL call failures of TLS. */
function tlsHint(error: Error & { code?: string }): string | undefined {
  if (!/CERT|ERR_SSL|EPROTO|UNABLE_TO/.test(error.code ?? "")) return undefined;
  return "if its certificate is of an authority of your own, name that one's file in NODE_EXTRA_CA_CERTS; if it has no TLS, write http://";
}

/** Sends the body as fast as it is taken. An answer that comes before its end ends it: the daemon has refused it. */
async function feed(
  out: NodeHttp.ClientRequest,
  body: Request["body"],
  isAnswered: () => boolean,
): Promise<void> {
  try {
    if (body && !(body instanceof Uint8Array)) {
      for await (const piece of isBlob(body) ? piecesOf(body.stream()) : body) {
        if (isAnswered() || out.destroyed) break;
        if (!out.write(piece)) await new Promise<void>((go) => void out.once("drain", go).once("close", go).once("response", () => go()));
      }
      out.end();
    } else out.end(body);
  } catch (error) {
    out.destroy(error instanceof Error ? error : new Error(String(error)));
  }
}

class NodeReply implements Reply {
  readonly status: number;

  constructor(
    private readonly message: NodeHttp.IncomingMessage,
    private readonly signal: AbortSignal | undefined,
  ) {
    this.status = message.statusCode ?? 0;
    message.on("error", () => undefined); // told by pieces(), to whoever reads
  }

  async *pieces(): AsyncGenerator<Uint8Array> {
    try {
      for await (const piece of this.message) yield piece as Uint8Array;
    } catch (error) {
      if (this.signal?.aborted) throw this.signal.reason;
      if (error instanceof TimedOut) throw error;
      throw new ConnectionFailed(`the reply broke off: ${(error as Error).message}`, { cause: error });
    } finally {
      this.close();
    }
  }

  close(): void {
    if (!this.message.complete) this.message.destroy();
  }
}

async function sendByFetch(
  fetching: typeof fetch,
  endpoint: Endpoint,
  req: Request,
  headers: Record<string, string>,
  timeoutMs: number,
): Promise<Reply> {
  const stop = new AbortController();
  req.signal?.addEventListener("abort", () => stop.abort(req.signal!.reason), { once: true });
  const alarm = new Alarm(timeoutMs, () => stop.abort(new TimedOut("no bytes came within the time given")));
  const init: RequestInit & { duplex?: "half" } = { method: req.method, headers, signal: stop.signal };
  if (req.body instanceof Uint8Array) init.body = req.body as Uint8Array<ArrayBuffer>;
  else if (isBlob(req.body)) init.body = req.body; // browsers stream no other body over HTTP/1.1
  else if (req.body) {
    init.body = streamOf(req.body);
    init.duplex = "half";
  }
  let response: Response;
  try {
    response = await fetching(endpoint.origin + req.target, init);
  } catch (error) {
    alarm.off();
    throw failureOfFetch(error, stop.signal, `cannot talk to ${endpoint.origin}`);
  }
  return {
    status: response.status,
    async *pieces() {
      try {
        if (response.body)
          for await (const piece of piecesOf(response.body)) {
            alarm.again();
            yield piece;
          }
      } catch (error) {
        throw failureOfFetch(error, stop.signal, "the reply broke off");
      } finally {
        alarm.off();
        stop.abort();
      }
    },
    close() {
      alarm.off();
      stop.abort();
    },
  };
}

function isBlob(body: Request["body"]): body is Blob {
  return body !== undefined && "arrayBuffer" in body;
}

function failureOfFetch(error: unknown, stop: AbortSignal, what: string): unknown {
  if (stop.aborted) return stop.reason;
  return new ConnectionFailed(`${what}: ${(error as Error).message}`, { cause: error });
}

function streamOf(pieces: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  const from = pieces[Symbol.asyncIterator]();
  return new ReadableStream({
    async pull(into) {
      const { done, value } = await from.next();
      if (done) into.close();
      else into.enqueue(value);
    },
    async cancel() {
      await from.return?.();
    },
  });
}

/** Rings when nothing was heard for so long. */
class Alarm {
  private timer: ReturnType<typeof setTimeout> | undefined;
  constructor(
    private readonly ms: number,
    private readonly ring: () => void,
  ) {
    this.again();
  }
  again(): void {
    this.off();
    if (this.ms !== Infinity) this.timer = setTimeout(this.ring, this.ms);
  }
  off(): void {
    clearTimeout(this.timer);
  }
}
