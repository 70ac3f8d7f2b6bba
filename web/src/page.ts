// SPDX-License-Identifier: Apache-2.0
/** What a page is, and what it is given. A page is mounted into an empty element and taken down by the function it returned. */
import type { Client, Json } from "../../sdk/typescript/src/index.js";
import type { Live } from "./live.js";

/** Who is logged in: the key, its project and when the login ends. */
export interface Who {
  key: { id: string; name: string; scope: "read" | "write" | "admin" };
  project: { id: string; name: string };
  /** Whether the key sees all projects. */
  isHostAdmin: boolean;
  /** Somebody who has logged in at the provider; undefined: a key. */
  person?: { subject: string; name: string | null; email: string | null };
  /** Those that the person may choose from. */
  projects: { id: string; name: string; scope: string }[];
  expiresUs: number;
}

export interface Context {
  cloche: Client;
  who: Who;
  /** The path's parts that the route names, such as `id`. */
  params: Record<string, string>;
  /** Goes to a path of the dashboard. */
  go(path: string): void;
  live: Live;
  /** Ends with the page: for requests and listeners that must not outlive it. */
  signal: AbortSignal;
}

export interface Page {
  title: string;
  mount(root: HTMLElement, ctx: Context): () => void;
}

export type { Client, Json };
