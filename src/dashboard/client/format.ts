/** Milliseconds as a person reads them: 8 ms, 240 ms, 1.24 s, 38 s, 4 min. */
export function duration(ms: number): string {
  if (ms < 10) return `${Math.round(ms * 10) / 10} ms`;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 9_995) return `${(ms / 1000).toFixed(2)} s`;
  if (ms < 99_500) return `${(ms / 1000).toFixed(1)} s`;
  return span(ms);
}

/** A longer time, roughly: 40 s, 3 min, 2 h 5 min, 4 d 3 h. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 100) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 100) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** Time of day of the viewer's own clock zone: 04:22:27. */
export function timeOfDay(at: number): string {
  return clock.format(at);
}

export function count(n: number): string {
  return n.toLocaleString("en-GB");
}

export function percent(share: number): string {
  const value = share * 100;
  return `${value > 0 && value < 10 ? value.toFixed(1) : Math.round(value)} %`;
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}
