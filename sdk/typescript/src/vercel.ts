// SPDX-License-Identifier: Apache-2.0
/**
 * Lets programs that use `@vercel/sandbox`, and the `sandbox` command, work with a cloche daemon:
 *
 *     CLOCHE_URL=http://127.0.0.1:7070 CLOCHE_API_KEY=clo_… node --import cloche/vercel app.mjs
 *
 * Their client has its address built in. It is led to the daemon by global fetch, which is replaced when this module is
 * loaded, or by `fetch` of this module, given to their calls. All other requests go where they went before. Without
 * credentials of Vercel's in the environment it sets a token that stands for none; to the daemon goes CLOCHE_API_KEY.
 *
 * Their client also makes `domain(port)` of a name below vercel.run, whatever the reply says; it is changed to give the link
 * that the daemon told. Where that cannot be (a bundle that their code is part of), the name is led to the daemon by fetch.
 */
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

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
  /* Names below localhost are the loopback's to browsers and curl, not to every resolver that Node asks. */
  const label = /^(\d+)-([a-z0-9]{26})\.(?:vercel\.run|localhost)$/.exec(url.hostname);
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

interface Route {
  port: number;
  url: string;
}
interface Session {
  routes: Route[];
  domain(port: number): string;
}

function isLoopback(url: URL): boolean {
  return /^(localhost|127\.[\d.]+|\[::1\])$/.test(url.hostname);
}

/** Where the daemon says that a port is. One that knows itself by its loopback alone is where we reach it. */
function linkOf(route: Route): string {
  const base = daemonUrl();
  const link = new URL(route.url, base);
  const url = isLoopback(link) && !isLoopback(base) ? below(base, link.pathname, "") : link;
  return url.href.replace(/\/$/, ""); /* as theirs: paths are appended to it */
}

function changeDomain(session: Session): void {
  const theirs = session.domain;
  session.domain = function (this: Session, port: number): string {
    const route = this.routes.find((candidate) => candidate.port === Number(port));
    return route ? linkOf(route) : theirs.call(this, port);
  };
}

/** The file of their package that has called us; undefined: another's code. */
function findCaller(): string | undefined {
  const { prepareStackTrace, stackTraceLimit } = Error;
  try {
    Error.stackTraceLimit = 50;
    Error.prepareStackTrace = (_, sites) => sites.map((site) => site.getFileName() ?? "").find((file) => /[\\/]@vercel[\\/]sandbox[\\/]/.test(file));
    return new Error().stack;
  } finally {
    Object.assign(Error, { prepareStackTrace, stackTraceLimit });
  }
}

/** The package that a file of theirs is part of, as it was loaded: there are two forms of it, and may be several copies. */
async function loadAgain(file: string): Promise<{ Session: { prototype: Session } }> {
  const require = createRequire(file);
  if (file.endsWith(".cjs")) return require("@vercel/sandbox");
  const manifest = "@vercel/sandbox/package.json";
  const entry = new URL(require(manifest).exports["."].import, pathToFileURL(require.resolve(manifest)));
  return import(entry.href);
}

const changed = new Map<string, Promise<void>>();

/**
 * Changes `domain()` of the client that calls us, once. The stack says which one that is. (Hooks of the module loader would
 * not be called for a program that imports us and them in one go, and differ between versions of Node.)
 */
function changeCaller(): Promise<void> | undefined {
  const file = findCaller();
  if (file && !changed.has(file)) changed.set(file, loadAgain(file).then((theirs) => changeDomain(theirs.Session.prototype)).catch(() => {}));
  return file ? changed.get(file) : undefined;
}

/** As global fetch, but requests for Vercel's API and for ports of sandboxes go to the daemon at CLOCHE_URL. */
export const fetch: Fetch = (input, init) => {
  const isRequest = input instanceof Request;
  const place = placeOf(new URL(isRequest ? input.url : String(input)));
  if (!place) return realFetch(input, init);
  const headers = init?.headers ?? (isRequest ? input.headers : undefined);
  /* All else of init stays as it is: a dispatcher in it keeps silent replies from being cut off. */
  const all: RequestInit = { ...init, headers: place.isApi ? withKey(headers) : new Headers(headers) };
  const send = () => realFetch(isRequest ? new Request(place.url, input) : place.url, all);
  return place.isApi ? Promise.resolve(changeCaller()).then(send) : send();
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
