// SPDX-License-Identifier: Apache-2.0
/**
 * A tool for the Vercel AI SDK, majors 4 to 7 (`ai` on npm), without depending on it.
 *
 *     const tools = { run_code: clocheRunCode({ sandbox }) };
 *
 * The majors disagree on where a tool's schema is and on how it is told from others; one object carries it under both
 * names, marked by the symbols that all of them look for.
 */
import { CodeTool, type CodeToolOptions, DESCRIPTION, schemaOf } from "./code-tool.js";

export type { CodeToolOptions } from "./code-tool.js";
export { clocheSandboxSession, type SandboxSession, type SessionProcess } from "./sandbox-session.js";

export interface RunCodeTool {
  type: undefined;
  description: string;
  parameters: any;
  inputSchema: any;
  execute(input: any, options?: { abortSignal?: AbortSignal }): Promise<string>;
  /** Ends the sandbox, where the tool made it. */
  close(): Promise<void>;
}

export function clocheRunCode(options: CodeToolOptions & { description?: string } = {}): RunCodeTool {
  const { description = DESCRIPTION, ...rest } = options;
  const tool = new CodeTool(rest);
  const schema = {
    jsonSchema: schemaOf(tool.languages),
    validate(value: unknown) {
      try {
        return { success: true, value: tool.parse(value) };
      } catch (error) {
        return { success: false, error };
      }
    },
    [Symbol.for("vercel.ai.schema")]: true,
    [Symbol.for("vercel.ai.validator")]: true,
  };
  return {
    type: undefined,
    description,
    parameters: schema,
    inputSchema: schema,
    async execute(input, how = {}) {
      return tool.text(await tool.run(tool.parse(input), how.abortSignal));
    },
    close: () => tool.close(),
  };
}
