// SPDX-License-Identifier: Apache-2.0
/**
 * Commands that an agent of OpenAI's goes on talking to: exec_command starts one, write_stdin types and reads on.
 *
 * Nothing reads in the background. A command is an exec of the daemon's, which keeps its output and numbers it; an update
 * reads what lies behind the last number for as long as the model wants to wait, then lets go of the connection.
 */
import { ClocheError, Gone } from "./errors.js";
import type { Exec, ExecEvent } from "./exec.js";
import { codeOf } from "./exec-info.js";
import { shorten } from "./code-tool.js";

export interface Update {
  output: string;
  stdout: string;
  stderr: string;
  wallTimeSeconds: number;
  /** Once it is over. */
  exitCode?: number;
  /** While it runs. */
  sessionId?: number;
}
export interface UpdateOptions {
  /** How long to wait for its end; without it, until then. */
  yieldTimeMs?: number;
  maxOutputTokens?: number;
}

const BYTES_PER_TOKEN = 4;
/** Of one update; a program that prints without end is not kept whole. */
const HELD_MAX = 4 << 20;
/** To read what is there already, once the time for waiting is over. */
const LAST_LOOK_MS = 5000;
const SESSIONS_MAX = 64;
const INTERRUPT = "\u0003";
const NO_STDIN =
  "stdin is not available for this process. Start the command with `tty=true` in `exec_command` before using `write_stdin`.";

class Running {
  exitCode: number | undefined;
  private after = 0;
  private held = { output: "", stdout: "", stderr: "" };
  private readonly decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  private turn: Promise<unknown> = Promise.resolve();

  constructor(
    readonly exec: Exec,
    readonly hasTerminal: boolean,
  ) {}

  /** What came since the last one: until the command is over, or for so long. */
  update(options: UpdateOptions): Promise<Omit<Update, "sessionId">> {
    const made = this.turn.then(() => this.take(options));
    this.turn = made.catch(() => undefined);
    return made;
  }

  private async take({ yieldTimeMs, maxOutputTokens }: UpdateOptions): Promise<Omit<Update, "sessionId">> {
    const began = Date.now();
    if (this.exitCode === undefined && yieldTimeMs !== 0) await this.read(true, yieldTimeMs);
    if (this.exitCode === undefined) await this.read(false, LAST_LOOK_MS);
    const { output, stdout, stderr } = this.held;
    this.held = { output: "", stdout: "", stderr: "" };
    return {
      output: maxOutputTokens === undefined ? output : shorten(output, maxOutputTokens * BYTES_PER_TOKEN),
      stdout,
      stderr,
      wallTimeSeconds: (Date.now() - began) / 1000,
      exitCode: this.exitCode,
    };
  }

  private async read(follow: boolean, ms: number | undefined): Promise<void> {
    const stop = new AbortController();
    const timer = ms === undefined ? undefined : setTimeout(() => stop.abort(), ms);
    try {
      for await (const event of this.exec.output({ after: this.after, follow, signal: stop.signal })) this.feed(event);
    } catch (error) {
      if (!stop.signal.aborted) throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  private feed(event: ExecEvent): void {
    this.after = Math.max(this.after, event.seq);
    if (event.type === "stdout" || event.type === "stderr") {
      const text = this.decoders[event.type].decode(event.data, { stream: true });
      for (const name of ["output", event.type] as const) this.held[name] = (this.held[name] + text).slice(-HELD_MAX);
    } else if (event.type === "gap") this.held.output += `\n[${event.lostBytes} bytes of output were lost]\n`;
    else if (event.exec?.isOver) this.exitCode = codeOf(event.exec);
  }

  async end(): Promise<void> {
    try {
      if (this.exitCode === undefined) await this.exec.kill();
      await this.exec.delete();
    } catch (error) {
      if (!(error instanceof ClocheError)) throw error; // else with its sandbox, or before
    }
  }
}

/** A session's commands that run, by the number that the model has for each. */
export class Terminals {
  private readonly running = new Map<number, Running>(); // in the order of their last use
  private last = 0;

  async start(exec: Exec, hasTerminal: boolean, options: UpdateOptions): Promise<Update> {
    const [oldest] = this.running.keys();
    if (this.running.size >= SESSIONS_MAX) await this.remove(oldest!);
    const id = ++this.last;
    this.running.set(id, new Running(exec, hasTerminal));
    return this.update(id, options);
  }

  async write(id: number, chars: string, options: UpdateOptions): Promise<Update> {
    const one = this.running.get(id);
    const refusal = !one
      ? `write_stdin failed: session not found: ${id}`
      : !one.hasTerminal && chars.replaceAll(INTERRUPT, "")
        ? NO_STDIN
        : undefined;
    if (!one || refusal) return { output: refusal!, stdout: "", stderr: "", wallTimeSeconds: 0, exitCode: 1 };
    try {
      if (!one.hasTerminal && chars) await one.exec.signal("INT");
      else if (chars) await one.exec.writeStdin(chars);
    } catch (error) {
      if (!(error instanceof Gone)) throw error; // else it is over: the update says so
    }
    return this.update(id, options);
  }

  async endAll(): Promise<void> {
    for (const id of [...this.running.keys()]) await this.remove(id);
  }

  private async update(id: number, options: UpdateOptions): Promise<Update> {
    const one = this.running.get(id)!;
    this.running.delete(id);
    this.running.set(id, one);
    const made = await one.update(options);
    if (made.exitCode === undefined) return { ...made, sessionId: id };
    await this.remove(id);
    return made;
  }

  private async remove(id: number): Promise<void> {
    const one = this.running.get(id);
    this.running.delete(id);
    await one?.end();
  }
}
