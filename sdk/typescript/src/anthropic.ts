// SPDX-License-Identifier: Apache-2.0
/**
 * Tools for Anthropic's Messages API, without depending on its SDK: what to declare, and handleToolUse(), which answers a
 * `tool_use` block with the `tool_result` block.
 *
 *     const results = await Promise.all(blocks.map((block) => handleToolUse(block, sandbox)));
 *
 * Anthropic's own `code_execution` is a server tool: when it is declared, their machines run the code and no block ever
 * comes here. Declare runCodeTool() instead. A block of that name, as a proxy may send it, is answered all the same.
 */
import { CodeTool, DESCRIPTION, schemaOf, shorten } from "./code-tool.js";
import type { CodeResult } from "./code.js";
import { ClocheError } from "./errors.js";
import type { Sandbox } from "./sandbox.js";

export { agentToolset, type RunnableTool } from "./anthropic-toolset.js";

/** A tool for `tools` of a request: it lets the model run code in Python, JavaScript and bash. */
export function runCodeTool(options: { name?: string; description?: string; allowedCallers?: string[] } = {}) {
  const { name = "run_code", description = DESCRIPTION, allowedCallers } = options;
  const tool = { name, description, input_schema: schemaOf() };
  return allowedCallers ? { ...tool, allowed_callers: allowedCallers } : tool;
}
/** A tool for `tools` of a request: a bash that keeps its state. */
export function bashTool() {
  return { type: "bash_20250124" as const, name: "bash" as const };
}
/** A tool for `tools` of a request: an editor for the sandbox's files. */
export function textEditorTool(options: { maxCharacters?: number } = {}) {
  const tool = { type: "text_editor_20250728" as const, name: "str_replace_based_edit_tool" as const };
  return options.maxCharacters === undefined ? tool : { ...tool, max_characters: options.maxCharacters };
}

export interface ToolUse {
  type?: string;
  id: string;
  name: string;
  input: any;
}
export interface ToolResult {
  type: "tool_result";
  tool_use_id: string;
  content: ({ type: "text"; text: string } | { type: "image"; source: { type: "base64"; media_type: string; data: string } })[];
  is_error: boolean;
}
type Content = ToolResult["content"];
interface Answer {
  content: Content;
  isError: boolean;
}

/** A call that the model got wrong: its message is what the model reads. */
class Wrong extends Error {}

const HANDLERS: Record<string, (input: any, sandbox: Sandbox) => Promise<Answer>> = {
  run_code: runCode,
  code_execution: runCode,
  bash: runBash,
  bash_code_execution: runBash,
  str_replace_based_edit_tool: edit,
  text_editor_code_execution: edit,
};

/**
 * Answers a `tool_use` block: runs it and resolves with the `tool_result` block. If anything fails inside, the model gets it
 * as an error; this does not throw.
 */
export async function handleToolUse(block: ToolUse, sandbox: Sandbox): Promise<ToolResult> {
  let answer: Answer;
  try {
    const handler = HANDLERS[block.name];
    if (!handler) throw new Wrong(`there is no tool '${block.name}'; there are ${Object.keys(HANDLERS).join(", ")}`);
    answer = await handler(block.input ?? {}, sandbox);
  } catch (error) {
    if (!(error instanceof Wrong || error instanceof ClocheError || error instanceof TypeError)) throw error;
    answer = { content: text(`Error: ${error.message}`), isError: true };
  }
  return { type: "tool_result", tool_use_id: block.id, content: answer.content, is_error: answer.isError };
}
/** The same, by the name that it has elsewhere. */
export const handleCodeExecutionToolUse = handleToolUse;

/** Answers all `tool_use` blocks of a turn. The result is the content of the user message to send next. */
export function handleToolUses(content: readonly { type: string }[], sandbox: Sandbox): Promise<ToolResult[]> {
  const blocks = content.filter((block): block is ToolUse & { type: string } => block.type === "tool_use");
  return Promise.all(blocks.map((block) => handleToolUse(block, sandbox)));
}

function text(value: string): Content {
  return [{ type: "text", text: shorten(value, 100_000) || "(no output)" }];
}

async function runCode(input: any, sandbox: Sandbox): Promise<Answer> {
  const tool = new CodeTool({ sandbox });
  const result = await tool.run(tool.parse(input));
  return { content: [...text(tool.text(result)), ...pictures(result)], isError: result.status !== "ok" };
}

function pictures(result: CodeResult): Content {
  return result.results
    .filter((shown) => typeof shown.data["image/png"] === "string")
    .map(({ data }) => ({ type: "image", source: { type: "base64", media_type: "image/png", data: data["image/png"].replace(/\s/g, "") } }));
}

async function runBash(input: any, sandbox: Sandbox): Promise<Answer> {
  if (input.restart === true) {
    const [bash] = (await sandbox.contexts.list()).filter((context) => context.name === "bash");
    if (bash) await sandbox.contexts.restart(bash.id);
    return { content: text("bash was restarted"), isError: false };
  }
  if (typeof input.command !== "string") throw new Wrong("`command` must be a string");
  const tool = new CodeTool({ sandbox, languages: ["bash"] });
  const result = await tool.run({ code: input.command });
  return { content: text(tool.text(result)), isError: result.status !== "ok" };
}

async function edit(input: any, sandbox: Sandbox): Promise<Answer> {
  const path = wordOf(input, "path");
  const said = await (EDITS[input.command] ?? noSuchEdit)(path, input, sandbox);
  return { content: text(said), isError: false };
}

type Edit = (path: string, input: any, sandbox: Sandbox) => Promise<string>;

const EDITS: Record<string, Edit> = {
  async view(path, input, { files }) {
    const entry = await files.stat(path, { follow: true });
    if (entry.isDirectory) return (await files.list(path)).map((e) => (e.isDirectory ? `${e.name}/` : e.name)).join("\n");
    const lines = (await files.readText(path)).split("\n");
    const [from, to] = rangeOf(input.view_range, lines.length);
    return lines.slice(from - 1, to).map((line, i) => `${String(from + i).padStart(6)}\t${line}`).join("\n");
  },
  async create(path, input, { files }) {
    await files.write(path, wordOf(input, "file_text"), { parents: true });
    return `${path} was written`;
  },
  async str_replace(path, input, { files }) {
    const [old, whole] = [wordOf(input, "old_str"), await files.readText(path)];
    const count = old ? whole.split(old).length - 1 : 0;
    if (count !== 1) throw new Wrong(`\`old_str\` must occur exactly once in ${path}, and occurs ${count} times`);
    const at = whole.indexOf(old);
    await files.write(path, whole.slice(0, at) + String(input.new_str ?? "") + whole.slice(at + old.length));
    return `${path} was changed`;
  },
  async insert(path, input, { files }) {
    const lines = (await files.readText(path)).split("\n");
    const at = input.insert_line;
    if (!Number.isInteger(at) || at < 0 || at > lines.length)
      throw new Wrong(`\`insert_line\` must be from 0 to ${lines.length}`);
    lines.splice(at, 0, wordOf(input, "insert_text").replace(/\n$/, ""));
    await files.write(path, lines.join("\n"));
    return `${path} was changed`;
  },
};

async function noSuchEdit(_path: string, input: any): Promise<string> {
  throw new Wrong(`\`command\` must be one of ${Object.keys(EDITS).join(", ")}, and is '${input.command}'`);
}

function wordOf(input: any, name: string): string {
  const value = input[name];
  if (typeof value !== "string") throw new Wrong(`\`${name}\` must be a string`);
  return value;
}

/** First and last line, 1-based; -1 is the last one. */
function rangeOf(range: unknown, count: number): [number, number] {
  if (range === undefined || range === null) return [1, count];
  const [from, to] = range as [number, number];
  if (!Number.isInteger(from) || !Number.isInteger(to) || from < 1 || from > count || (to !== -1 && to < from))
    throw new Wrong(`\`view_range\` must be [FIRST, LAST] within 1 to ${count}, or -1 as the last`);
  return [from, to === -1 ? count : to];
}
