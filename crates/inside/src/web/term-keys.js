// From keys to the bytes a terminal sends, as xterm does it.

export const MODE = {
  APP_CURSOR: 1, PASTE: 2, APP_KEYPAD: 4, ALT: 8, FOCUS: 16, PRESS: 32, DRAG: 64, MOVE: 128, SGR: 256,
};

const ESC = "\x1b";
const LETTER = { ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D", Home: "H", End: "F" };
const TILDE = { Insert: 2, Delete: 3, PageUp: 5, PageDown: 6, F5: 15, F6: 17, F7: 18, F8: 19, F9: 20, F10: 21, F11: 23, F12: 24 };
const SS3 = { F1: "P", F2: "Q", F3: "R", F4: "S" };
const CONTROL = { " ": "\0", "@": "\0", "2": "\0", "[": ESC, "3": ESC, "\\": "\x1c", "4": "\x1c", "]": "\x1d", "5": "\x1d", "^": "\x1e", "6": "\x1e", _: "\x1f", "-": "\x1f", "/": "\x1f", "7": "\x1f", "8": "\x7f", "?": "\x7f" };

/// The bytes for a key event, or null when the browser should turn the key
/// into text itself (which is what input methods need).
export function encodeKey(event, modes, isMac) {
  const { key, ctrlKey, altKey, shiftKey, metaKey } = event;
  if (metaKey) return null;
  const modifier = 1 + (shiftKey ? 1 : 0) + (altKey ? 2 : 0) + (ctrlKey ? 4 : 0);
  const modified = modifier > 1;

  if (LETTER[key]) {
    if (modified) return `${ESC}[1;${modifier}${LETTER[key]}`;
    return `${ESC}${modes & MODE.APP_CURSOR ? "O" : "["}${LETTER[key]}`;
  }
  if (SS3[key]) return modified ? `${ESC}[1;${modifier}${SS3[key]}` : `${ESC}O${SS3[key]}`;
  if (TILDE[key]) return `${ESC}[${TILDE[key]}${modified ? `;${modifier}` : ""}~`;

  const alt = altKey ? ESC : "";
  switch (key) {
    case "Enter": return `${alt}\r`;
    case "Tab": return shiftKey ? `${ESC}[Z` : "\t";
    case "Escape": return `${alt}${ESC}`;
    case "Backspace": return alt + (ctrlKey ? "\x08" : "\x7f");
  }
  if (key.length !== 1) return null;
  if (ctrlKey) {
    // AltGr is Ctrl+Alt on some systems, and makes characters, not commands.
    if (altKey && event.getModifierState?.("AltGraph")) return null;
    const code = event.code?.startsWith("Key") ? event.code.slice(3).toLowerCase() : key.toLowerCase();
    if (code >= "a" && code <= "z") return alt + String.fromCharCode(code.charCodeAt(0) - 96);
    return CONTROL[key] === undefined ? null : alt + CONTROL[key];
  }
  // On a Mac, Option makes characters.
  if (altKey && !isMac && !event.getModifierState?.("AltGraph")) return ESC + key;
  return null;
}

/// Pasted text as the program expects it. Control characters that could end a
/// bracketed paste early are removed: pasted text must never run as commands.
export function encodePaste(text, modes) {
  const clean = text.replaceAll("\r\n", "\r").replaceAll("\n", "\r").replaceAll(ESC, "");
  return modes & MODE.PASTE ? `${ESC}[200~${clean}${ESC}[201~` : clean;
}
