/** Headers by which clients and other routers name a session, the most telling first. */
const SESSION_HEADERS = ["x-session-id", "x-smg-routing-key"] as const;

/** Characters of the prompt that stand for a session nobody has named. */
const FIRST_BLOCK = 256;

/**
 * What a session's requests have in common: the header, else the body's `user`, else the prompt's first block. The source is part of
 * the key, so that a user's name and a session's id of the same text are two sessions. Headers and `user` of any text are fine: the
 * key is only ever hashed.
 */
export function sessionKey(
  header: (name: string) => string | null | undefined,
  user: string | undefined,
  prompt: () => string,
): string {
  for (const name of SESSION_HEADERS) {
    const value = header(name);
    if (value) return `header:${value}`;
  }
  if (user) return `user:${user}`;
  return `prompt:${prompt().slice(0, FIRST_BLOCK)}`;
}
