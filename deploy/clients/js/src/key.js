/**
 * An idempotency key in the form of a UUIDv7 (RFC 9562, section 5.7):
 * milliseconds first, so that keys made together lie together in the node's
 * index, then 74 random bits.
 */
export function newKey(nowMs = Date.now()) {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  new DataView(bytes.buffer).setUint32(0, Math.floor(nowMs / 2 ** 16));
  new DataView(bytes.buffer).setUint16(4, nowMs % 2 ** 16);
  bytes[6] = (bytes[6] & 0x0f) | 0x70;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return [bytes.subarray(0, 4), bytes.subarray(4, 6), bytes.subarray(6, 8), bytes.subarray(8, 10), bytes.subarray(10)].map(hex).join("-");
}

export function hex(bytes) {
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}
