// SPDX-License-Identifier: Apache-2.0
/**
 * Lets programs that use `@vercel/sandbox`, and the `sandbox` command, work with a cloche daemon:
 *
 *     CLOCHE_URL=http://127.0.0.1:7070 CLOCHE_API_KEY=clo_… node --import cloche/vercel app.mjs
 *
 * Their client has its address built in, and makes `domain(port)` a name below vercel.run. Both are led to the daemon here:
 * by global fetch, which is replaced when this module is loaded, or by `fetch` of this module, given to their calls. All other
 * requests go where they went before. Without credentials of Vercel's in the environment it sets a token that stands for none;
 * to the daemon goes CLOCHE_API_KEY.
 */
const DEFAULT_URL = "http://127.0.0.1:7070";
const INSTALLED = Symbol.for("cloche.vercel");

type Fetch = typeof globalThis.fetch;
interface Place {
  url: URL;
  isApi: boolean;
}

const marked = globalThis as unknown as Record<symbol, Fetch | undefined>;
const realFetch: Fetch = marked[INSTALLED] ?? globalThis.fetch.bind(globalThis);

function daemonUrl(): URL {
  return new URL(process.env["CLOCHE_URL"] || DEFAULT_URL);
}

/** Behind what path CLOCHE_URL has of its own. */
function below(base: URL, path: string, search: string): URL {
  const url = new URL(base);
  url.pathname = base.pathname.replace(/\/$/, "") + path;
  url.search = search;
  return url;
}

/** Where a request is to go instead; undefined: it is none of ours. */
function placeOf(url: URL): Place | undefined {
  const base = daemonUrl();
  if (url.hostname === "vercel.com" && url.pathname.startsWith("/api/")) {
    return { url: below(base, `/vercel${url.pathname}`, url.search), isApi: true };
  }
  const label = /^(\d+)-([a-z0-9]+)\.vercel\.run$/.exec(url.hostname);
  if (label) return { url: below(base, `/p/sb_${label[2]}/${label[1]}${url.pathname}`, url.search), isApi: false };
  /* The command looks whether a terminal's host is there, by https and without a port. */
  if (url.protocol === "https:" && url.port === "" && url.pathname === "/health" && url.hostname === base.hostname) {
    return { url: below(base, "/v1/health", ""), isApi: false };
  }
  return undefined;
}

/** The daemon's key in the place of a token that means nothing to it. */
function withKey(headers: HeadersInit | undefined): Headers {
  const all = new Headers(headers);
  const key = process.env["CLOCHE_API_KEY"];
  if (key) all.set("authorization", `Bearer ${key}`);
  return all;
}

/** As global fetch, but requests for Vercel's API and for ports of sandboxes go to the daemon at CLOCHE_URL. */
export const fetch: Fetch = (input, init) => {
  const isRequest = input instanceof Request;
  const place = placeOf(new URL(isRequest ? input.url : String(input)));
  if (!place) return realFetch(input, init);
  const headers = init?.headers ?? (isRequest ? input.headers : undefined);
  /* All else of init stays as it is: a dispatcher in it keeps silent replies from being cut off. */
  const changed: RequestInit = { ...init, headers: place.isApi ? withKey(headers) : new Headers(headers) };
  return realFetch(isRequest ? new Request(place.url, input) : place.url, changed);
};

/** A token without a signature, whose claims their client takes team and project from. */
function makeToken(): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  return `${part({ alg: "none", typ: "JWT" })}.${part({ owner_id: "local", project_id: "local" })}.x`;
}

function install(): void {
  if (marked[INSTALLED]) return;
  marked[INSTALLED] = realFetch;
  globalThis.fetch = fetch;
  process.env["VERCEL_OIDC_TOKEN"] ||= makeToken();
}

install();
