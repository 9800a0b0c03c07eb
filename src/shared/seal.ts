const encoder = new TextEncoder();

/**
 * Signs what tells routers to change their fleets (HMAC-SHA-256, the admin key and the topic): the store holds it, but whoever can write
 * to the store cannot send prompts to a worker of his own, nor empty a pool.
 */
export async function seal(text: string, topic: string, secret: string): Promise<string> {
  const mac = new Uint8Array(
    await crypto.subtle.sign("HMAC", await keyOf(secret), encoder.encode(`${topic}\n${text}`)),
  );
  return `${hex(mac)}.${text}`;
}

/** The text, if its seal is right; else undefined. */
export async function unseal(sealed: string, topic: string, secret: string): Promise<string | undefined> {
  const match = /^([0-9a-f]{64})\.([\s\S]*)$/.exec(sealed);
  if (match === null) return undefined;
  const mac = Uint8Array.from(match[1]!.match(/../g)!, (byte) => Number.parseInt(byte, 16));
  const text = match[2]!;
  const right = await crypto.subtle.verify("HMAC", await keyOf(secret), mac, encoder.encode(`${topic}\n${text}`));
  return right ? text : undefined;
}

function keyOf(secret: string): Promise<CryptoKey> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  return crypto.subtle.importKey("raw", encoder.encode(secret), algorithm, false, ["sign", "verify"]);
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
