/** What connection errors mean for who runs the fleet. Codes differ by runtime; Bun's own texts ask the reader whether he is online. */
const MEANING: readonly (readonly [RegExp, string])[] = [
  [
    /ECONNREFUSED|ConnectionRefused/i,
    "nothing listens there: is the engine up, and bound to an address that others can reach?",
  ],
  [/ENOTFOUND|EAI_AGAIN|dns|FailedToOpenSocket/i, "the name has no address here"],
  [/EHOSTUNREACH|ENETUNREACH/i, "no way leads to that host from here"],
  [
    /ECONNRESET|ConnectionClosed|socket connection was closed/i,
    "the connection was closed without an answer: does it speak HTTP, or only TLS?",
  ],
  [/no answer within/, "it is busy, still loading its model, or something on the way drops packets"],
  [/status 40[13]/, "it wants a key: name the variable that holds it in apiKeyEnv"],
  [/status 404/, "no engine's API is there: is the port right, is a base path missing in the URL?"],
  [/status 30\d/, "it sends elsewhere, and redirects are not followed: write the address it leads to"],
  [/status 503/, "it is not ready yet"],
];

/** An error of `listModels` with what it means behind it; as it is where nothing is known about it. */
export function explainReach(error: string): string {
  const meaning = MEANING.find(([pattern]) => pattern.test(error))?.[1];
  return meaning === undefined ? error : `${error} (${meaning})`;
}
