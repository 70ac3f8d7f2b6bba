// SPDX-License-Identifier: Apache-2.0
/**
 * The sandbox that the page is about, as its panels see it: what it is now, what happens to it, and what it uses. There is one
 * of it for as long as the page is open; panels come and go, and listen for as long as their signal says.
 *
 * Nothing here is activity of the sandbox: to look at the page wakes none that is paused and keeps none from its idle time.
 */
import { Sandbox, type SandboxInfo } from "../../../../sdk/typescript/src/index.js";
import { gathered } from "../../gathered.js";
import type { Entry } from "../../live.js";
import type { Context, Json } from "../../page.js";

/** Figures of one moment; rates are since the moment before. */
export interface Sample {
  atS: number;
  /** CPUs in use. */
  cpus: number | null;
  memory: number | null;
  disk: number | null;
  pids: number | null;
  inRate: number | null;
  outRate: number | null;
}

const SAMPLES_MAX = 450; // a quarter of an hour
const ENTRIES_MAX = 2000;

type Listener<T> = (value: T) => void;

class Listeners<T> {
  private readonly fns = new Set<Listener<T>>();

  on(fn: Listener<T>, signal: AbortSignal): void {
    if (signal.aborted) return;
    this.fns.add(fn);
    signal.addEventListener("abort", () => this.fns.delete(fn), { once: true });
  }
  tell(value: T): void {
    for (const fn of [...this.fns]) fn(value);
  }
}

export class Box {
  readonly samples: Sample[] = [];
  /** Whether a panel that is mounted may take the focus: not from who goes along the tabs by keys. */
  givesFocus = true;
  /** The last answer about its use. */
  usage: Json | undefined;
  /** What has happened, the oldest first; filled by history(). */
  readonly entries: Entry[] = [];

  private readonly changed = new Listeners<SandboxInfo>();
  private readonly happened = new Listeners<Entry>();
  private readonly measured = new Listeners<Json>();
  private readonly reconnected = new Listeners<void>();
  private read: Promise<void> | undefined;
  private readTo = 0;
  private readonly refreshSoon: () => void;
  private last: { atUs: number; cpuNs: number; inBytes: number; outBytes: number } | undefined;

  private constructor(
    readonly ctx: Context,
    readonly sandbox: Sandbox,
  ) {
    this.refreshSoon = gathered(() => this.refresh().catch(() => undefined), ctx.signal); // that there is no daemon is told elsewhere
  }

  static async open(ctx: Context): Promise<Box> {
    const sandbox = await Sandbox.get(ctx.params["id"]!, { client: ctx.cloche, signal: ctx.signal });
    const box = new Box(ctx, sandbox);
    box.listen();
    box.refreshSoon(); // what happened behind the answer and before we listened
    return box;
  }

  get id(): string {
    return this.sandbox.id;
  }
  get info(): SandboxInfo {
    return this.sandbox.info;
  }
  get isRunning(): boolean {
    return this.info.state === "running";
  }
  get mayWrite(): boolean {
    return this.ctx.who.key.scope !== "read";
  }

  /** Its state or settings are other than before. */
  onInfo(fn: (info: SandboxInfo) => void, signal: AbortSignal): void {
    this.changed.on(fn, signal);
  }
  /** Something of it is in the event log. */
  onEntry(fn: (entry: Entry) => void, signal: AbortSignal): void {
    this.happened.on(fn, signal);
  }
  /** Its use was asked for. */
  onUsage(fn: (usage: Json) => void, signal: AbortSignal): void {
    this.measured.on(fn, signal);
  }
  /** The daemon is there again: what is shown has to be asked for anew. */
  onAgain(fn: () => void, signal: AbortSignal): void {
    this.reconnected.on(fn, signal);
  }

  /** As Live.keep(), for what hangs on this sandbox: behind entries of it that matter, and when the log is followed again. */
  keep(load: () => Promise<void> | void, matters: (entry: Entry) => boolean, signal: AbortSignal): () => void {
    const again = gathered(load, signal);
    this.onEntry((entry) => matters(entry) && again(), signal);
    this.onAgain(again, signal);
    again();
    return again;
  }

  /** What a call of the SDK has changed is there at once; the event that follows changes nothing more. */
  tellInfo(): void {
    this.changed.tell(this.info);
  }

  async refresh(): Promise<void> {
    await this.sandbox.refresh();
    this.tellInfo();
  }

  /** Reads the log's part about it, once for each time that the log is followed: what came before that is in no live entry. */
  history(): Promise<void> {
    return (this.read ??= this.readHistory().catch((error: unknown) => {
      this.read = undefined; // the next one tries again
      throw error;
    }));
  }

  private async readHistory(): Promise<void> {
    for await (const entry of this.ctx.cloche.events({ sandbox: this.id, after: this.readTo, signal: this.ctx.signal })) {
      this.add(entry as Entry);
      if (typeof entry["seq"] === "number") this.readTo = entry["seq"];
    }
    this.entries.sort((a, b) => a.seq - b.seq);
  }

  private add(entry: Entry): void {
    if (typeof entry.seq !== "number" || this.entries.some((e) => e.seq === entry.seq)) return;
    this.entries.push(entry);
    if (this.entries.length > ENTRIES_MAX) this.entries.splice(0, this.entries.length - ENTRIES_MAX);
  }

  private listen(): void {
    const { live, signal } = this.ctx;
    const offEntries = live.on((entry) => {
      if (entry.sandbox_id === this.id) this.onLive(entry);
    });
    const offState = live.onState((state) => {
      if (state !== "open") return;
      this.read = undefined;
      this.refreshSoon();
      this.reconnected.tell();
    });
    live.onFigures((figures) => this.onFigures(figures), signal);
    void this.begin();
    signal.addEventListener("abort", () => {
      offEntries();
      offState();
    });
  }

  /** What was measured before the page was opened comes first. */
  private async begin(): Promise<void> {
    const before = await this.sandbox.usageSamples().catch(() => []);
    for (const sample of before) this.addSample({ at_us: sample["at_us"], usage: sample, now: sample });
    await this.sample();
  }

  /** A newer reading was made of it: it is asked for whole. */
  private onFigures(figures: Json): void {
    const row = (figures["sandboxes"] as Json[]).find((s) => s["id"] === this.id);
    if (row && row["at_us"] > (this.last?.atUs ?? 0)) void this.sample();
  }

  private onLive(entry: Entry): void {
    this.add(entry);
    this.happened.tell(entry);
    if (/^(sandbox|snapshot)\./.test(entry.type)) this.refreshSoon();
    if (entry.type.startsWith("sandbox.")) void this.sample(); // one that rests is not read
  }

  private async sample(): Promise<void> {
    if (document.hidden) return;
    const told = await this.sandbox.usage().catch(() => undefined); // that there is no daemon is told elsewhere
    if (!told || this.ctx.signal.aborted) return;
    this.usage = told;
    if (told["now"] || this.samples.length === 0) this.addSample(told);
    this.measured.tell(told);
  }

  private addSample(told: Json): void {
    const { usage, now } = told as { usage: Json; now: Json | null };
    if (this.last && told["at_us"] <= this.last.atUs) return;
    const next = { atUs: told["at_us"], cpuNs: usage["cpu_ns"], inBytes: usage["network_in_bytes"], outBytes: usage["network_out_bytes"] };
    const was = this.last;
    this.last = next;
    const seconds = was ? (next.atUs - was.atUs) / 1e6 : 0;
    const rate = (to: number, from: number | undefined): number | null => (seconds > 0 && from !== undefined ? Math.max(0, to - from) / seconds : null);
    this.samples.push({
      atS: next.atUs / 1e6,
      cpus: rate(next.cpuNs / 1e9, was && was.cpuNs / 1e9),
      memory: now?.["memory_bytes"] ?? null,
      disk: now?.["disk_bytes"] ?? null,
      pids: now?.["pids"] ?? null,
      inRate: rate(next.inBytes, was?.inBytes),
      outRate: rate(next.outBytes, was?.outBytes),
    });
    if (this.samples.length > SAMPLES_MAX) this.samples.shift();
  }
}
