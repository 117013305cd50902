/** Builds command lines of `sluice`, to be copied into a shell. */
import { HIDDEN } from "./text";

/** Quotes a word for a POSIX shell. Hidden characters need the form `$'..'` of bash, zsh and ksh. */
export function quote(word: string): string {
  if (/^[A-Za-z0-9_./:=@%+,-]+$/.test(word)) return word;
  if (word.search(HIDDEN) >= 0) {
    const escaped = word.replace(/[\\']/g, "\\$&").replace(HIDDEN, (c) => {
      const octets = new TextEncoder().encode(c);
      return Array.from(octets, (octet) => `\\x${octet.toString(16).padStart(2, "0")}`).join("");
    });
    return `$'${escaped}'`;
  }
  return `'${word.replaceAll("'", "'\\''")}'`;
}

/** Builds a command. An option is its name, or its name and a value. Names that begin with a dash follow `--`. */
export function command(verb: string[], options: [string, string?][], names: string[]): string {
  const words = ["sluice", ...verb];
  for (const [key, value] of options) {
    if (value === undefined) words.push(key);
    else if (value.startsWith("-")) words.push(`${key}=${quote(value)}`);
    else words.push(key, quote(value));
  }
  if (names.some((name) => name.startsWith("-"))) words.push("--");
  return [...words, ...names.map(quote)].join(" ");
}

/** The option that names a virtual host; none for the default one. */
export function inVhost(vhost: string): [string, string][] {
  return vhost === "/" ? [] : [["--vhost", vhost]];
}
