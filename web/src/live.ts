// SPDX-License-Identifier: Apache-2.0
/**
 * What happens, as it happens: one reader of the event log for all pages. It begins at the log's head, remembers the number of
 * the last entry it saw, and asks for what came after when the connection breaks: so a restart of the daemon loses nothing.
 * What a page asked for before the log was followed may be older than the log's first entry here: so whatever is shown is kept
 * by keep(), which asks once more as soon as the log is followed, each time that it is.
 * A tab that nobody looks at lets go of its connection after a while: a browser has six to one host, and who opens a seventh
 * tab would see nothing in it. When it is looked at again it asks for what it missed.
 * The same connection tells figures every few seconds: no page asks by a clock of its own.
 * Entries are read by fetch and not by EventSource, which could send neither our header nor a number that we know.
 */
import { type Client, type Json, jsonLines, request } from "../../sdk/typescript/src/index.js";
import { gathered } from "./gathered.js";

export interface Entry extends Json {
  seq: number;
  place?: number;
  type: string;
  at_us: number;
  sandbox_id?: string;
}

/** What the log goes on behind: an entry's number in its project, or its place where the entries of all projects are read. */
export function cursorOf(entry: Json): number {
  return (entry["place"] ?? entry["seq"] ?? 0) as number;
}

/** The newest entry's. */
export async function newest(cloche: Client, all: boolean, signal?: AbortSignal): Promise<number> {
  const head = await cloche.call(request("GET", ["events", "head"], { query: { all: all || undefined }, signal }));
  return (all ? head["place"] : head["head"]["seq"]) as number;
}

export type LiveState = "connecting" | "open" | "lost";

const PAUSE_MS = 250;
const PAUSE_MAX_MS = 2000;
const HIDDEN_MS = 20_000;

export class Live {
  state: LiveState = "connecting";
  private after: number | undefined;
  private readonly entryFns = new Set<(entry: Entry) => void>();
  private readonly figuresFns = new Set<(figures: Json) => void>();
  private readonly stateFns = new Set<(state: LiveState) => void>();
  private readonly stop = new AbortController();
  private reading = new AbortController();
  private hidden: ReturnType<typeof setTimeout> | undefined;

  /** `onRefused` is called when the login no longer counts. */
  constructor(
    private readonly cloche: Client,
    private readonly all: boolean,
    private readonly onRefused: () => void,
  ) {
    const look = (): void => {
      clearTimeout(this.hidden);
      if (document.hidden) this.hidden = setTimeout(() => this.reading.abort(), HIDDEN_MS);
    };
    document.addEventListener("visibilitychange", look, { signal: this.stop.signal });
    void this.run();
  }

  /** Calls fn with each entry; returns how to stop that. */
  on(fn: (entry: Entry) => void): () => void {
    this.entryFns.add(fn);
    return () => void this.entryFns.delete(fn);
  }

  /** Calls fn with figures as they come, until the signal. */
  onFigures(fn: (figures: Json) => void, signal: AbortSignal = this.stop.signal): void {
    this.figuresFns.add(fn);
    signal.addEventListener("abort", () => this.figuresFns.delete(fn), { once: true });
  }

  /**
   * Keeps what is shown true: calls load now, behind each entry that matters, and whenever the log is followed (again). Never
   * twice at a time, and `ms` apart. Returns how to have it called once more.
   */
  keep(load: () => Promise<void> | void, matters: (entry: Entry) => boolean, signal: AbortSignal, ms?: number): () => void {
    const again = gathered(load, signal, ms);
    const stops = [this.on((entry) => matters(entry) && again()), this.onState((state) => state === "open" && again())];
    signal.addEventListener("abort", () => stops.forEach((stop) => stop()), { once: true });
    again();
    return again;
  }

  /** Calls fn when the connection is made or lost. */
  onState(fn: (state: LiveState) => void): () => void {
    this.stateFns.add(fn);
    return () => void this.stateFns.delete(fn);
  }

  close(): void {
    this.stop.abort();
    this.reading.abort();
    clearTimeout(this.hidden);
  }

  private move(state: LiveState): void {
    if (state === this.state) return;
    this.state = state;
    for (const fn of this.stateFns) fn(state);
  }

  private async run(): Promise<void> {
    let pause = PAUSE_MS;
    while (!this.stop.signal.aborted) {
      const begun = Date.now();
      try {
        await this.read();
      } catch (error) {
        if (this.stop.signal.aborted) return;
        if ((error as { code?: string }).code === "unauthenticated") {
          this.onRefused();
          return;
        }
      }
      if (this.stop.signal.aborted) return;
      if (this.reading.signal.aborted && document.hidden) {
        this.move("connecting");
        await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true, signal: this.stop.signal }));
        pause = PAUSE_MS;
        continue;
      }
      this.move("lost");
      if (Date.now() - begun > PAUSE_MAX_MS) pause = PAUSE_MS;
      await new Promise((resolve) => setTimeout(resolve, pause));
      pause = Math.min(pause * 2, PAUSE_MAX_MS);
    }
  }

  private async read(): Promise<void> {
    const { signal } = (this.reading = new AbortController());
    const head = await newest(this.cloche, this.all, signal);
    this.after = Math.min(this.after ?? head, head); // a log that is shorter than it was is another one
    const query = { after: this.after || undefined, follow: true, all: this.all, figures: true };
    const reply = await this.cloche.open(request("GET", ["events"], { query, accept: "application/x-ndjson", timeoutMs: Infinity, signal }));
    this.move("open");
    for await (const entry of jsonLines(reply.pieces())) {
      this.after = Math.max(this.after, cursorOf(entry));
      if (entry["type"] === "figures") for (const fn of this.figuresFns) fn(entry["figures"] as Json);
      else if (entry["type"]) for (const fn of this.entryFns) fn(entry as Entry);
    }
  }
}
