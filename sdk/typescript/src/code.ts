// SPDX-License-Identifier: Apache-2.0
/**
 * Code in interpreters that keep their state: what a call gives back, and the contexts it runs in.
 */
import { ClocheError, ConnectionFailed, errorOfBody } from "./errors.js";
import { type ExecEvent, TextSink } from "./exec.js";
import type { CallOptions } from "./exec-info.js";
import { checkNames } from "./names.js";
import type { Language, LanguageWord } from "./options.js";
import type { Caller } from "./transport.js";
import { type Json, Kept, type RequestParts, fromBase64, request, textOrBase64 } from "./wire.js";


export interface CodeOptions extends CallOptions {
  /** Python, unless another is named. */
  language?: LanguageWord;
  /** The id or name of a context. Default: the default context of the language. */
  context?: string;
  /** Interrupts the code after this time. Default: never. */
  timeoutMs?: number;
  /** What to do while another call runs in the context. */
  onBusy?: "queue" | "refuse";
  /** Working directory of a default context; used only by the call that creates it. The same holds for `env`. */
  cwd?: string;
  env?: Record<string, string>;
  /** Gets output while the code runs. The result has the output too, up to 16 MiB of each stream. */
  onStdout?: (chunk: string) => void;
  onStderr?: (chunk: string) => void;
  onResult?: (result: Result) => void;
  /** Interrupts the code if the connection of this call ends. */
  killOnDisconnect?: boolean;
}

/** The error that ended the code. Its name is `InterpreterDied` if the interpreter's process has ended. */
export interface CodeError {
  name: string;
  message: string;
  traceback: string[];
  /** What to do, if the code imports a module that the sandbox lacks. */
  hint?: string;
}

/** As a terminal shows it: the traceback, where there is one. */
export function textOfError(error: CodeError): string {
  return error.traceback.join("\n") || `${error.name}: ${error.message}`;
}

/** A value in all its forms, by MIME type: the value of the last expression (`isMain`), or one that the code displayed. */
export class Result {
  readonly data: Record<string, any>;
  readonly metadata: Record<string, any>;
  readonly truncated: boolean;

  constructor(
    j: Json,
    readonly isMain: boolean,
  ) {
    this.data = j["data"];
    this.metadata = j["metadata"] ?? {};
    this.truncated = Boolean(j["truncated"]);
  }

  get text(): string | undefined {
    return this.data["text/plain"];
  }
  get html(): string | undefined {
    return this.data["text/html"];
  }
  get json(): unknown {
    return this.data["application/json"];
  }
  /** The picture's bytes. */
  get png(): Uint8Array | undefined {
    const encoded: unknown = this.data["image/png"];
    return typeof encoded === "string" ? fromBase64(encoded) : undefined;
  }
}

export class ContextInfo {
  readonly id: string;
  readonly name: string;
  readonly language: Language;
  readonly state: "starting" | "idle" | "busy" | "dead";
  readonly count: number;

  constructor(readonly raw: Json) {
    this.id = raw["id"];
    this.name = raw["name"];
    this.language = raw["language"];
    this.state = raw["state"];
    this.count = raw["count"];
  }
}

/** The result of runCode(). Code that fails throws nothing: see `error`, and check(). */
export class CodeResult {
  readonly status: "ok" | "error" | "exit" | "died";
  readonly cause: string | null;
  /** The call's number in its interpreter. */
  readonly count: number;
  /** The exit code as in a shell: 1 for an error that was not caught, 128 plus the number for a signal. */
  readonly exitCode: number;
  readonly signal: number | null;
  /** Whether an earlier interpreter of the context had ended, so that this call got a fresh one. */
  readonly restarted: boolean;
  readonly context: ContextInfo | null;
  readonly wallUs: number;
  readonly cpuUs: number | null;

  constructor(
    end: Json,
    readonly stdoutBytes: Uint8Array,
    readonly stderrBytes: Uint8Array,
    readonly results: Result[],
    readonly error: CodeError | null,
    readonly stdoutTruncated = false,
    readonly stderrTruncated = false,
  ) {
    this.status = end["status"];
    this.cause = end["cause"];
    this.count = end["count"];
    this.signal = end["signal"];
    this.exitCode = exitCodeOf(end);
    this.restarted = end["restarted"];
    this.context = end["context"] ? new ContextInfo(end["context"]) : null;
    this.wallUs = end["wall_us"];
    this.cpuUs = end["cpu_us"] ?? null;
  }

  static fromJson(j: Json): CodeResult {
    const results = (j["results"] as Json[]).map((r) => new Result(r, Boolean(r["is_main"])));
    return new CodeResult(
      j,
      textOrBase64(j, "stdout"),
      textOrBase64(j, "stderr"),
      results,
      j["error"],
      j["stdout_truncated"],
      j["stderr_truncated"],
    );
  }

  get stdout(): string {
    return new TextDecoder().decode(this.stdoutBytes);
  }
  /**
   * What the code printed to stderr, followed by the error that it did not catch, as in a terminal. `printedStderr` has only
   * what was printed.
   */
  get stderr(): string {
    const { error, printedStderr } = this;
    if (!error) return printedStderr;
    return (printedStderr && !printedStderr.endsWith("\n") ? `${printedStderr}\n` : printedStderr) + `${textOfError(error)}\n`;
  }
  /** What the code printed to stderr, without an error that it did not catch. */
  get printedStderr(): string {
    return new TextDecoder().decode(this.stderrBytes);
  }
  /** The last expression's value as text, if it had one. */
  get text(): string | undefined {
    return this.results.find((r) => r.isMain)?.text;
  }

  /** Output, exit code and error as plain data, for JSON.stringify(). */
  toJSON(): Json {
    const { status, text, stdout, stderr, error, exitCode, signal, cause, stdoutTruncated, stderrTruncated } = this;
    const results = this.results.map(({ isMain, data }) => ({ isMain, data }));
    return { status, text: text ?? null, stdout, stderr, results, error, exitCode, signal, cause, stdoutTruncated, stderrTruncated };
  }

  /** Returns this result if the code succeeded; else throws CodeFailed. */
  check(): this {
    if (this.status === "ok") return this;
    const { error } = this;
    const how = error ? textOfError(error) : `the code ended by ${this.cause ?? this.status}`;
    throw new CodeFailed(how, this);
  }
}

/** Code failed (CodeResult.check()); `result` has the whole result. */
export class CodeFailed extends ClocheError {
  constructor(
    message: string,
    readonly result: CodeResult,
  ) {
    super(message, { code: "code_failed" });
  }
}

function exitCodeOf(end: Json): number {
  return end["exit_code"] ?? (end["signal"] ? 128 + end["signal"] : end["status"] === "ok" ? 0 : 1);
}

/** A streamed call's result. Output that goes to a callback is kept as well. */
export async function collectCode(stream: AsyncIterable<ExecEvent>, options: CodeOptions): Promise<CodeResult> {
  const { onStdout, onStderr, onResult } = options;
  const sinks = { stdout: onStdout && new TextSink(onStdout), stderr: onStderr && new TextSink(onStderr) };
  const kept = { stdout: new Kept(), stderr: new Kept() };
  const results: Result[] = [];
  let error: CodeError | null = null;
  for await (const { type, raw, data } of stream) {
    if (type === "stdout" || type === "stderr") {
      kept[type].push(data);
      sinks[type]?.push(data);
    } else if (type === "result" || type === "display") {
      const result = new Result(raw, type === "result");
      results.push(result);
      onResult?.(result);
    } else if (type === "error") error = raw["error"];
    else if (type === "failed") throw errorOfBody(0, raw);
    else if (type === "done") {
      sinks.stdout?.end();
      sinks.stderr?.end();
      const { stdout, stderr } = kept;
      return new CodeResult(raw, stdout.bytes, stderr.bytes, results, error, stdout.isTruncated, stderr.isTruncated);
    }
  }
  throw new ConnectionFailed("the stream ended before the code did");
}

export function codeBody(code: string, how: CodeOptions): Json {
  return {
    code,
    language: how.language,
    context: how.context,
    timeout_ms: how.timeoutMs,
    on_busy: how.onBusy,
    cwd: how.cwd,
    env: how.env,
    kill_on_disconnect: how.killOnDisconnect || undefined,
  };
}

/**
 * An event of runCodeStream(): `stdout` and `stderr` with a text, `result` with a Result, `error` with a CodeError, and at
 * last `exit` with the exit code.
 */
export class CodeEvent {
  constructor(
    readonly type: "stdout" | "stderr" | "result" | "error" | "exit",
    readonly data: any,
    readonly seq: number,
    /** When it came, in milliseconds since 1970. */
    readonly ts: number,
  ) {}

  /** The exit code, of `exit`. */
  get code(): number | null {
    return this.type === "exit" ? this.data : null;
  }
}

/** Makes CodeEvents of a stream's events; text that is cut in two waits for its rest. */
export async function* codeEvents(stream: AsyncIterable<ExecEvent>): AsyncGenerator<CodeEvent> {
  const texts = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  for await (const { type, raw, data, seq } of stream) {
    const ts = Date.now();
    if (type === "stdout" || type === "stderr") {
      const text = texts[type].decode(data, { stream: true });
      if (text) yield new CodeEvent(type, text, seq, ts);
    } else if (type === "result" || type === "display") {
      yield new CodeEvent("result", new Result(raw, type === "result"), seq, ts);
    } else if (type === "error") yield new CodeEvent("error", raw["error"], seq, ts);
    else if (type === "failed") throw errorOfBody(0, raw);
    else if (type === "done") {
      for (const name of ["stdout", "stderr"] as const) {
        const rest = texts[name].decode();
        if (rest) yield new CodeEvent(name, rest, seq, ts);
      }
      yield new CodeEvent("exit", exitCodeOf(raw), seq, ts);
    }
  }
}

export interface ContextOptions {
  name?: string;
  language?: LanguageWord;
  cwd?: string;
  env?: Record<string, string>;
  user?: string;
}

/** The named interpreters of a sandbox. */
export class Contexts {
  /** `idOf` gives the sandbox's id, for which it may have to be made first. */
  constructor(
    private readonly client: Caller,
    private readonly idOf: () => Promise<string>,
  ) {}

  private async call(method: string, path: readonly string[], parts?: RequestParts): Promise<Json> {
    return this.client.call(request(method, ["sandboxes", await this.idOf(), "contexts", ...path], parts));
  }

  /** Creates an interpreter with its own state, for runCode(code, { context }). A sandbox can have 16. */
  async create(options: ContextOptions = {}): Promise<ContextInfo> {
    checkNames("create", { name: 1, language: 1, cwd: 1, env: 1, user: 1 }, options);
    const { name, language, cwd, env, user } = options;
    return new ContextInfo(await this.call("POST", [], { body: { name, language, cwd, env, user } }));
  }

  /** Lists all contexts, oldest first. */
  async list(): Promise<ContextInfo[]> {
    return ((await this.call("GET", []))["contexts"] as Json[]).map((j) => new ContextInfo(j));
  }

  private async one(method: string, ...path: string[]): Promise<ContextInfo> {
    return new ContextInfo(await this.call(method, path));
  }

  /** Gets one by its id or name. */
  get(context: string): Promise<ContextInfo> {
    return this.one("GET", context);
  }
  /** Removes the context: ends its interpreter and all that it started. */
  remove(context: string): Promise<ContextInfo> {
    return this.one("DELETE", context);
  }
  /** Gives the context a fresh interpreter. Its state is lost. */
  restart(context: string): Promise<ContextInfo> {
    return this.one("POST", context, "restart");
  }
  /** Interrupts the running call, which ends with an error, and keeps the state. */
  interrupt(context: string): Promise<ContextInfo> {
    return this.one("POST", context, "interrupt");
  }
}
