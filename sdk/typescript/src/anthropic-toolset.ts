// SPDX-License-Identifier: Apache-2.0
/**
 * Claude Managed Agents with a sandbox of cloche's: the tools of `agent_toolset_20260401` for a self-hosted environment's
 * worker, without depending on Anthropic's SDK.
 *
 *     new EnvironmentWorker({ client, environmentId, environmentKey, tools: () => agentToolset({ template: "python" }) });
 *
 * The agent's loop stays at Anthropic, what it does happens in the sandbox. They are runnable tools, so that toolRunner()
 * of the Messages API takes them too.
 */
import { CodeTool, type CodeToolOptions, shorten } from "./code-tool.js";
import { Sandbox } from "./sandbox.js";

const OUTPUT_LIMIT = 100_000;
const GLOB = `shopt -s globstar nullglob; cd -- "$2" || exit 2; IFS=; m=($1)
[ \${#m[@]} -eq 0 ] || stat -c '%Y %n' -- "\${m[@]}" | sort -rn | cut -d' ' -f2- | head -n 1000`;
const GREP = `grep -rnEI -- "$1" "$2" | head -c 262144; exit $(( PIPESTATUS[0] > 1 ? 2 : 0 ))`;

export interface RunnableTool {
  name: string;
  description: string;
  input_schema: { type: "object"; properties: Record<string, unknown>; required?: string[] };
  parse(content: unknown): any;
  run(input: any, context?: { signal?: AbortSignal | null }): Promise<string>;
  /** Ends the sandbox, where the tools made it. */
  close(): Promise<void>;
}

const text = { type: "string" };

/** Pass a `sandbox` of your own, which stays open. Without it, the first call creates one, which ends with the session. */
export function agentToolset(options: CodeToolOptions = {}): RunnableTool[] {
  const { sandbox: given, callTimeoutMs = 120_000, outputLimit = OUTPUT_LIMIT, languages: _, ...fields } = options;
  const box = given ?? new Sandbox(fields);
  const tool = new CodeTool({ sandbox: box, outputLimit });
  let end: Promise<void> | undefined;

  async function bash(input: { command?: string; restart?: boolean; timeout_ms?: number }, signal?: AbortSignal): Promise<string> {
    if (input.restart)
      for (const context of await box.contexts.list()) if (context.name === "bash") await box.contexts.restart(context.id);
    if (input.command === undefined) return "bash was restarted";
    const result = await box.runCode(input.command, { language: "bash", timeoutMs: input.timeout_ms ?? callTimeoutMs, killOnDisconnect: true, signal });
    if (result.status !== "ok") throw new Error(tool.text(result) || `it ended with code ${result.exitCode}`);
    return tool.text(result);
  }
  async function read({ file_path, view_range }: { file_path: string; view_range?: [number, number] }): Promise<string> {
    const whole = await box.files.readText(file_path);
    if (!view_range) return shorten(whole, outputLimit);
    const [first, last] = view_range;
    return shorten(whole.split("\n").slice(first - 1, last === -1 ? undefined : last).join("\n"), outputLimit);
  }
  async function write({ file_path, content }: { file_path: string; content: string }): Promise<string> {
    await box.files.write(file_path, content, { parents: true });
    return `${file_path} was written`;
  }
  async function edit(input: { file_path: string; old_string: string; new_string: string; replace_all?: boolean }): Promise<string> {
    const { files } = box;
    const parts = (await files.readText(input.file_path)).split(input.old_string);
    if (!input.old_string || parts.length === 1) throw new Error(`old_string is not in ${input.file_path}`);
    if (parts.length > 2 && !input.replace_all) throw new Error(`old_string occurs ${parts.length - 1} times in ${input.file_path}: say replace_all, or more of it`);
    await files.write(input.file_path, parts.join(input.new_string));
    return `${input.file_path} was changed`;
  }
  const script = (body: string) => async (input: { pattern: string; path?: string }) => {
    const done = await box.run(["bash", "-c", body, "bash", input.pattern, input.path ?? "."], { timeoutMs: 60_000 });
    if (done.exitCode !== 0) throw new Error(done.stderr || `it ended with code ${done.exitCode}`);
    return shorten(done.stdout, outputLimit) || "(nothing found)";
  };

  const make = (name: string, description: string, properties: Record<string, unknown>, required: string[], run: (input: any, signal?: AbortSignal) => Promise<string>): RunnableTool => ({
    name,
    description,
    input_schema: { type: "object", properties, required },
    parse: (content) => content,
    async run(input, context) {
      for (const word of required) if (typeof input?.[word] !== "string") throw new Error(`\`${word}\` must be a string`);
      await box.open();
      return run(input, context?.signal ?? undefined);
    },
    close: () => (end ??= given ? Promise.resolve() : box.close()),
  });
  const range = { type: "array", items: { type: "integer" }, description: "[first, last] line, from 1; -1 is the last" };
  const path = { type: "string", description: "The home directory without it." };
  return [
    make("bash", "Run a command in a bash whose state stays from call to call.", { command: text, restart: { type: "boolean" }, timeout_ms: { type: "integer" } }, [], bash),
    make("read", "Read a text file.", { file_path: text, view_range: range }, ["file_path"], read),
    make("write", "Write a text file; missing directories are made.", { file_path: text, content: text }, ["file_path", "content"], write),
    make("edit", "Replace old_string by new_string in a file; it must occur once, unless replace_all.", { file_path: text, old_string: text, new_string: text, replace_all: { type: "boolean" } }, ["file_path", "old_string", "new_string"], edit),
    make("glob", "Files that match a pattern, newest first.", { pattern: text, path }, ["pattern"], script(GLOB)),
    make("grep", "Lines that match an extended regular expression.", { pattern: text, path }, ["pattern"], script(GREP)),
  ];
}
