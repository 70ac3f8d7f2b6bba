// SPDX-License-Identifier: Apache-2.0
/**
 * The tool that every agent framework's adapter offers to its model: run code in a sandbox whose state stays. Here is what
 * they share, and nothing of any framework: which sandbox, what a call's arguments are, and what the model is told.
 */
import { type CodeResult, textOfError } from "./code.js";
import type { Language } from "./options.js";
import { Sandbox, type SandboxOptions } from "./sandbox.js";
import type { OtherSpellings } from "./spellings.js";

/** Pass a sandbox of your own, which stays open, or the options with which the first call creates one; close() ends that one. */
export type CodeToolOptions = {
  sandbox?: Sandbox;
  /** Of one call; 120,000 without it. */
  callTimeoutMs?: number;
  /** What the model reads at most of one call; 50,000 characters without it. */
  outputLimit?: number;
  /** Languages that the model may name, the first without a name. */
  languages?: readonly Language[];
} & SandboxOptions &
  OtherSpellings;

export const DESCRIPTION =
  "Execute code in a persistent sandbox. Variables, imports and files carry over from call to call. " +
  "Returns what was printed, the value of the last expression, and the error if there was one.";

const LANGUAGES: readonly Language[] = ["python", "javascript", "bash"];

/** The arguments' JSON schema. */
export function schemaOf(languages: readonly Language[] = LANGUAGES) {
  return {
    type: "object" as const,
    properties: {
      code: { type: "string", description: "The source code to run." },
      language: { type: "string", enum: [...languages], description: `${languages[0]} without it.` },
    },
    required: ["code"],
    additionalProperties: false,
  };
}

export interface CodeCall {
  code: string;
  language?: Language;
}

export class CodeTool {
  readonly languages: readonly Language[];
  private readonly sandbox: Sandbox;
  private readonly isOwn: boolean;
  private readonly timeoutMs: number;
  private readonly outputLimit: number;

  constructor(options: CodeToolOptions = {}) {
    const { sandbox, callTimeoutMs, outputLimit, languages, ...rest } = options;
    this.sandbox = sandbox ?? new Sandbox(rest);
    this.isOwn = sandbox === undefined;
    this.timeoutMs = callTimeoutMs ?? 120_000;
    this.outputLimit = outputLimit ?? 50_000;
    this.languages = languages ?? LANGUAGES;
  }

  /** A model's arguments, or the error that tells it what was wrong with them. */
  parse(value: unknown): CodeCall {
    const { code, language } = (value ?? {}) as Record<string, unknown>;
    if (typeof code !== "string") throw new TypeError("`code` must be a string with the source code to run");
    if (language !== undefined && language !== null && !this.languages.includes(language as Language))
      throw new TypeError(`\`language\` must be one of ${this.languages.join(", ")}`);
    return { code, language: (language as Language | null) ?? undefined };
  }

  async run(call: CodeCall, signal?: AbortSignal): Promise<CodeResult> {
    return this.sandbox.runCode(call.code, {
      language: call.language ?? this.languages[0],
      timeoutMs: this.timeoutMs,
      killOnDisconnect: true,
      signal,
    });
  }

  /** What the model reads of it. */
  text(result: CodeResult): string {
    const parts = [result.stdout, result.printedStderr];
    for (const shown of result.results) {
      const pictures = Object.keys(shown.data).filter((type) => type.startsWith("image/"));
      parts.push(pictures.length ? `[${pictures.join(", ")}]` : (shown.text ?? ""));
    }
    if (result.error) parts.push(textOfError(result.error));
    if (result.cause) parts.push(`[ended by ${result.cause}]`);
    const whole = parts
      .filter((part) => part !== "")
      .map((part) => (part.endsWith("\n") ? part : `${part}\n`))
      .join("");
    return shorten(whole, this.outputLimit);
  }

  async close(): Promise<void> {
    if (this.isOwn) await this.sandbox.close();
  }
}

/** The beginning and the end, where the whole is too long. */
export function shorten(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const half = Math.floor(limit / 2);
  return `${text.slice(0, half)}\n[… ${text.length - 2 * half} characters left out …]\n${text.slice(-half)}`;
}
