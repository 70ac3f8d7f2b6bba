// SPDX-License-Identifier: Apache-2.0
// A worker of a self-hosted environment, as a user of Claude Managed Agents writes it: `node environment-worker.mjs ENVIRONMENT KEY`.
// It ends by SIGTERM.
import Anthropic from "@anthropic-ai/sdk";
import { EnvironmentWorker } from "@anthropic-ai/sdk/helpers/beta/environments";
import { agentToolset } from "cloche/anthropic";

const [environmentId, environmentKey] = process.argv.slice(2);
const stop = new AbortController();
process.once("SIGTERM", () => stop.abort());
const tools = () => agentToolset({ tags: { for: "worker" } });
await new EnvironmentWorker({ client: new Anthropic({ apiKey: "unused" }), environmentId, environmentKey, tools, signal: stop.signal }).run();
