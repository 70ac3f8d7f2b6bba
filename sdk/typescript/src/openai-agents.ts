// SPDX-License-Identifier: Apache-2.0
/**
 * A function tool for the OpenAI Agents SDK (`@openai/agents`), without depending on it.
 *
 *     const agent = new Agent({ name: "assistant", tools: [clocheCodeInterpreter()] });
 */
import { CodeTool, type CodeToolOptions, DESCRIPTION, schemaOf } from "./code-tool.js";

export type { CodeToolOptions } from "./code-tool.js";
export { ClocheSandboxSession, clocheSandboxClient, type ClocheSessionState } from "./openai-sandbox.js";

export function clocheCodeInterpreter(options: CodeToolOptions & { name?: string; description?: string } = {}): any {
  const { name = "run_code", description = DESCRIPTION, ...rest } = options;
  const tool = new CodeTool(rest);
  return {
    type: "function",
    name,
    description,
    parameters: schemaOf(tool.languages),
    strict: false,
    /** What is wrong with a call is told to the model, so that it can do better. */
    async invoke(_context: unknown, json: string, details?: { signal?: AbortSignal }): Promise<string> {
      let call;
      try {
        call = tool.parse(JSON.parse(json));
      } catch (error) {
        return `Error: ${(error as Error).message}`;
      }
      return tool.text(await tool.run(call, details?.signal));
    },
    needsApproval: async () => false,
    isEnabled: async () => true,
    close: () => tool.close(),
  };
}
