// SPDX-License-Identifier: Apache-2.0
/**
 * The public SDK on this page's login. The cookie goes along by itself and counts only together with this header, which no
 * page of another site can send.
 */
import { Client, type Json, request } from "../../sdk/typescript/src/index.js";
import type { Who } from "./page.js";

export const HEADER = "x-cloche-dashboard";

export function connect(): Client {
  return new Client({
    url: location.origin.replace(/^(http:\/\/[^:]+)$/, "$1:80"),
    fetch: (input, init) => fetch(input, { ...init, headers: { ...(init?.headers as Record<string, string>), [HEADER]: "1" }, credentials: "same-origin", redirect: "error" }),
  });
}

function whoOf(j: Json): Who {
  return { key: j["key"], project: j["project"], isHostAdmin: j["is_host_admin"], person: j["person"] ?? undefined, projects: j["projects"] ?? [], expiresUs: j["expires_us"] ?? 0 };
}

/** Undefined where nobody is logged in. */
export async function whoAmI(cloche: Client): Promise<Who | undefined> {
  const told = await cloche.call(request("GET", ["login"]));
  return told["key"] ? whoOf(told) : undefined;
}

/** How people log in here, and what is wrong with a login that came back with this word. The words are the daemon's own, never the address's. */
export interface WayIn {
  provider?: { name: string; path: string };
  problem?: { message: string; hint: string };
}

export async function wayIn(cloche: Client, problem: string | null): Promise<WayIn> {
  const told = await cloche.call(request("GET", ["login"], { query: { problem } }));
  return { provider: told["provider"] ?? undefined, problem: told["problem"] };
}

export async function chooseProject(cloche: Client, project: string): Promise<void> {
  await cloche.call(request("PATCH", ["login"], { body: { project } }));
}

/** With a key, or with the token of a one-time link. */
export async function logIn(cloche: Client, by: { key: string } | { link: string }): Promise<Who> {
  return whoOf(await cloche.call(request("POST", ["login"], { body: by })));
}

export async function logOut(cloche: Client): Promise<void> {
  await cloche.call(request("DELETE", ["login"]));
}
