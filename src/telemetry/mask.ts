const MASK = "***";
/** What a bounded text ends with. */
const CUT = "…";

/** A secret this short is masked only where it stands alone: a key "abc" must not tear every word that contains it. */
const SHORT = 4;

/**
 * A function that puts `***` in place of every configured secret in a text, whatever wrote it (an engine's error message, a log field).
 * In: the secrets (empty ones are ignored). They are also found as they look inside JSON text and in a query string. Overlapping
 * finds are masked as one, so no half of a secret is left; nor is the half that a text which was cut short ends with ("…"). Secrets of fewer than 4 characters are masked only as whole words.
 * A text without any of them comes back as the same string after one native search per secret; call it for errors and log fields, not per chunk.
 * Rule: contract section 4, "configured keys are masked wherever an engine's message contains them".
 */
export function createMask(secrets: readonly string[]): (text: string) => string {
  const needles = spellings(secrets);
  if (needles.length === 0) return unchanged;
  return function maskText(text: string): string {
    let spans: [number, number][] | undefined;
    for (const needle of needles) {
      for (let at = text.indexOf(needle); at !== -1; at = text.indexOf(needle, at + 1)) {
        const end = at + needle.length;
        if (needle.length < SHORT && !standsAlone(text, at, end)) continue;
        spans ??= [];
        spans.push([at, end]);
      }
    }
    if (text.endsWith(CUT)) {
      const start = cutSecret(text, needles);
      if (start !== undefined) {
        spans ??= [];
        spans.push([start, text.length - CUT.length]);
      }
    }
    return spans === undefined ? text : replaceSpans(text, spans);
  };
}

/** Messages are bounded before they come here, and whoever can make an engine repeat a key can choose where that cuts it. */
function cutSecret(text: string, needles: readonly string[]): number | undefined {
  const end = text.length - CUT.length;
  for (const needle of needles) {
    for (let length = Math.min(needle.length - 1, end); length >= SHORT; length--) {
      if (text.startsWith(needle.slice(0, length), end - length)) return end - length;
    }
  }
  return undefined;
}

/** The same for secrets that are known for one request only, e.g. the key a client sent through to the engines. */
export function maskSecrets(text: string, secrets: readonly string[]): string {
  return createMask(secrets)(text);
}

/** User info in addresses (`http://user:secret@host`), keys in query strings and bearer tokens that nobody configured. */
export function maskAddresses(text: string): string {
  if (!/[@=]|bearer/i.test(text)) return text;
  return text
    .replace(/:\/\/[^\s/?#"'<>]*@/g, `://${MASK}@`)
    .replace(/([?&](?:[a-z0-9_-]*key|[a-z0-9_-]*token|password|secret|signature|sig)=)[^&\s"'#]+/gi, `$1${MASK}`)
    .replace(/(\bbearer\s+)[^\s"',;]+/gi, `$1${MASK}`);
}

function unchanged(text: string): string {
  return text;
}

function spellings(secrets: readonly string[]): string[] {
  const all = new Set<string>();
  for (const secret of secrets) {
    if (secret === "") continue;
    all.add(secret);
    all.add(JSON.stringify(secret).slice(1, -1));
    all.add(encoded(secret));
  }
  return [...all];
}

function encoded(secret: string): string {
  try {
    return encodeURIComponent(secret);
  } catch {
    return secret; // a lone surrogate has no such spelling
  }
}

function standsAlone(text: string, start: number, end: number): boolean {
  return !isWordCharacter(text.charAt(start - 1)) && !isWordCharacter(text.charAt(end));
}

function isWordCharacter(character: string): boolean {
  return /^[\p{L}\p{N}_]$/u.test(character);
}

function replaceSpans(text: string, spans: [number, number][]): string {
  spans.sort((a, b) => a[0] - b[0]);
  let out = "";
  let written = 0;
  let [start, end] = spans[0]!;
  for (const [nextStart, nextEnd] of spans) {
    if (nextStart <= end) {
      end = Math.max(end, nextEnd);
      continue;
    }
    out += text.slice(written, start) + MASK;
    written = end;
    start = nextStart;
    end = nextEnd;
  }
  return out + text.slice(written, start) + MASK + text.slice(end);
}
