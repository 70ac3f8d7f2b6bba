// SPDX-License-Identifier: Apache-2.0
/** Figures as people read them. */

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(n: number): string {
  let unit = 0;
  let value = n;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

/** An amount that the API tells as a decimal text, cut to what matters. */
export function money(amount: string | number | undefined, currency = ""): string {
  const value = Number(amount ?? 0);
  const digits = value !== 0 && Math.abs(value) < 0.1 ? 5 : 2;
  const text = value.toFixed(digits);
  return currency ? `${text} ${currency}` : text;
}

export function count(n: number): string {
  return n.toLocaleString("en-US");
}

/** Hours and the like: three decimals, and more where these would be zeros. */
export function amount(v: number): string {
  return v === 0 || v >= 0.01 ? v.toFixed(v === 0 ? 0 : 3) : Number(v.toPrecision(2)).toFixed(Math.min(9, 1 - Math.floor(Math.log10(v))));
}

export function percent(part: number): string {
  return `${part >= 0.1 || part === 0 ? Math.round(part * 100) : (part * 100).toFixed(1)}%`;
}

/** A length of time in its two largest units. */
export function span(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : `${seconds} s`;
  const [d, h, m, s] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60, seconds % 60];
  if (d > 0) return h > 0 ? `${d} d ${h} h` : `${d} d`;
  if (h > 0) return m > 0 ? `${h} h ${m} min` : `${h} h`;
  return s > 0 ? `${m} min ${s} s` : `${m} min`;
}

/** "3 min ago", from microseconds of the wall clock. */
export function ago(us: number, nowMs = Date.now()): string {
  const ms = nowMs - us / 1000;
  if (ms < 2000) return "just now";
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

export function clock(us: number): string {
  return new Date(us / 1000).toLocaleTimeString("en-GB");
}

export function moment(us: number): string {
  return new Date(us / 1000).toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC");
}

/** The same by the clock of who looks. */
export function localMoment(us: number): string {
  return new Date(us / 1000).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

/** An id short enough for a table; the whole is in its title. */
export function shortId(id: string): string {
  return id.length > 14 ? `${id.slice(0, 11)}…` : id;
}
