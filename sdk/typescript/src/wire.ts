// SPDX-License-Identifier: Apache-2.0
/**
 * Requests of the native API, without I/O: where the daemon is, what is sent, and how bytes travel in JSON.
 */
export const DEFAULT_SOCKET = "/run/cloche/cloche.sock";
export const DEFAULT_PORT = 7070;
export const NDJSON = "application/x-ndjson";
/** A call that may stay silent for as long as the work takes. */
export const FOREVER = Infinity;

export type Json = Record<string, any>;
/** Whatever bytes can be made of. Strings are sent as UTF-8; streams are sent as they come. */
export type Source = string | Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>;

/** http://HOST:PORT, https://HOST:PORT or unix:/PATH. */
export interface Endpoint {
  /** Scheme, host and port, or http://localhost for a socket. */
  origin: string;
  socketPath?: string;
}

export function parseEndpoint(url: string): Endpoint {
  if (url.startsWith("unix:")) {
    const path = url.slice("unix:".length).replace(/^\/\/(?=\/)/, "");
    if (!path.startsWith("/")) throw new TypeError(`not an absolute socket path: '${url}'`);
    return { origin: "http://localhost", socketPath: path };
  }
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw new TypeError(`not a URL of http:, https: or unix: '${url}'`);
  }
  if (parsed.protocol !== "http:" && parsed.protocol !== "https:")
    throw new TypeError(`not a URL of http:, https: or unix: '${url}'`);
  if (parsed.pathname.replace(/\/+$/, "") || parsed.search || parsed.hash)
    throw new TypeError(`a daemon's URL has no path: '${url}'`);
  const hasPort = parsed.port !== "" || /:\d+\/?$/.test(url);
  if (parsed.protocol === "http:" && !hasPort) parsed.port = String(DEFAULT_PORT);
  return { origin: parsed.origin };
}

/** An environment variable; undefined where the runtime has none. */
export function env(name: string): string | undefined {
  const process = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process;
  return process?.env?.[name] || undefined;
}

export interface Request {
  method: string;
  target: string;
  headers: Record<string, string>;
  body?: Uint8Array | Blob | AsyncIterable<Uint8Array>;
  /** Of silence; undefined = the client's default. */
  timeoutMs?: number;
  signal?: AbortSignal;
}

export interface RequestParts {
  query?: Record<string, string | number | boolean | undefined | null>;
  body?: Json;
  stream?: Source;
  accept?: string;
  timeoutMs?: number;
  idempotencyKey?: string;
  signal?: AbortSignal;
}

/** The request for /v1/PATH, for Client.call() and Client.open(): also for what has no method of its own. Fields and parameters that are undefined or null are left out. */
export function request(method: string, path: readonly string[], parts: RequestParts = {}): Request {
  let target = "/v1/" + path.map((word) => encodeURIComponent(word).replaceAll("%3A", ":")).join("/");
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(parts.query ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    words.set(name, value === true ? "1" : String(value));
  }
  const search = String(words);
  if (search) target += `?${search}`;
  const headers: Record<string, string> = {};
  if (parts.accept) headers["accept"] = parts.accept;
  if (parts.idempotencyKey !== undefined) headers["idempotency-key"] = parts.idempotencyKey;
  const made: Request = { method, target, headers, timeoutMs: parts.timeoutMs, signal: parts.signal };
  if (parts.body !== undefined) {
    const fields = Object.entries(parts.body).filter(([, value]) => value !== null && value !== undefined);
    made.body = utf8(JSON.stringify(Object.fromEntries(fields)));
    headers["content-type"] = "application/json";
  } else if (parts.stream !== undefined) {
    made.body = bytesOf(parts.stream);
    headers["content-type"] = "application/octet-stream";
  }
  return made;
}

/** Sending it twice does the same as once, and its body (if any) can be sent again. */
export function isRepeatable(req: Request): boolean {
  const isSafe = ["GET", "HEAD", "DELETE"].includes(req.method) || "idempotency-key" in req.headers;
  return isSafe && (req.body === undefined || req.body instanceof Uint8Array);
}

export function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function bytesOf(source: Source): NonNullable<Request["body"]> {
  if (typeof source === "string") return utf8(source);
  if (source instanceof Uint8Array) return source;
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if ("arrayBuffer" in source) return source;
  if (Symbol.asyncIterator in source) return source as AsyncIterable<Uint8Array>;
  return piecesOf(source);
}

/** A web stream as an async iterable, also where the runtime's streams are none themselves. */
export async function* piecesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

/** The exact bytes of a field that is told as text, and in base64 where it is not UTF-8. */
export function textOrBase64(j: Json, name: string): Uint8Array {
  const encoded: unknown = j[`${name}_base64`];
  return typeof encoded === "string" ? fromBase64(encoded) : utf8(String(j[name] ?? ""));
}

export function concat(pieces: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(pieces.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

const KEPT_MAX = 16 * 1024 * 1024; // of each stream: a program that prints without end is not kept whole

/** What a stream has printed, for the result. */
export class Kept {
  private readonly chunks: Uint8Array[] = [];
  private size = 0;

  push(data: Uint8Array): void {
    const piece = data.subarray(0, KEPT_MAX - this.size);
    this.chunks.push(piece);
    this.size += piece.length;
  }
  get bytes(): Uint8Array {
    return concat(this.chunks);
  }
  get isTruncated(): boolean {
    return this.size === KEPT_MAX;
  }
}

/** Cuts a stream of bytes into the JSON objects of its lines. */
export async function* jsonLines(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Json> {
  const decoder = new TextDecoder();
  let rest: string[] = [];
  for await (const piece of pieces) {
    const lines = decoder.decode(piece, { stream: true }).split("\n");
    for (let i = 0; i < lines.length - 1; i++) {
      rest.push(lines[i]!);
      const whole = rest.join("");
      rest = [];
      if (whole) yield JSON.parse(whole);
    }
    rest.push(lines[lines.length - 1]!);
  }
}
