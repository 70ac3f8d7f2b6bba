// SPDX-License-Identifier: Apache-2.0
// Compiles where the adapters are what the frameworks' types ask for.
import type Anthropic from "@anthropic-ai/sdk";
import { EnvironmentWorker } from "@anthropic-ai/sdk/helpers/beta/environments";
import type { SandboxClient, SandboxSession } from "@openai/agents/sandbox";
import { agentToolset } from "cloche/anthropic";
import { clocheSandboxClient } from "cloche/openai-agents";

export const client: SandboxClient = clocheSandboxClient({ template: "python" });
export const session: SandboxSession = await clocheSandboxClient().create();
export const worker = (anthropic: Anthropic) => new EnvironmentWorker({ client: anthropic, tools: () => agentToolset() });
