/**
 * Cursors: a position, sealed for one owner and one purpose. A cursor is a single AES block of the position and a tag,
 * so it shows nothing (not how busy others are), cannot be made up, and any changed character is refused.
 */
import { createCipheriv, createDecipheriv, createHash } from "node:crypto";

const POSITION_BYTES = 6;
const CURSOR_PATTERN = /^[A-Za-z0-9_-]{22}$/;

export interface CursorSeal {
  seal(position: number): string;
  /** The position, or undefined for a text that this seal did not make. */
  open(cursor: string): number | undefined;
}

/**
 * @param secret - 16 bytes that belong to the store.
 * @param purpose - What the cursor is good for; cursors of another purpose or owner do not open.
 */
export function createCursorSeal(secret: Uint8Array, owner: string, purpose = "log"): CursorSeal {
  const tag = createHash("sha256")
    .update(JSON.stringify([purpose, owner]))
    .digest()
    .subarray(POSITION_BYTES, 16);
  return {
    seal(position) {
      const block = Buffer.alloc(16);
      block.writeUIntBE(position, 0, POSITION_BYTES);
      tag.copy(block, POSITION_BYTES);
      const cipher = createCipheriv("aes-128-ecb", secret, null).setAutoPadding(false);
      return Buffer.concat([cipher.update(block), cipher.final()]).toString("base64url");
    },
    open(cursor) {
      if (!CURSOR_PATTERN.test(cursor)) return undefined;
      const sealed = Buffer.from(cursor, "base64url");
      // The last character holds unused bits: two texts must not mean the same cursor.
      if (sealed.toString("base64url") !== cursor) return undefined;
      const decipher = createDecipheriv("aes-128-ecb", secret, null).setAutoPadding(false);
      const block = Buffer.concat([decipher.update(sealed), decipher.final()]);
      return block.subarray(POSITION_BYTES).equals(tag) ? block.readUIntBE(0, POSITION_BYTES) : undefined;
    },
  };
}
