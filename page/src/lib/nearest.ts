/** The name that was probably meant by one that is unknown, by the same rule as the broker (crates/catalog/src/nearest.rs). */

/** The most letters to insert, delete or change between a name and the one that was meant. */
const EDITS_MAX = 2;

/** The longest name that is compared, in letters. The time of a comparison grows with it. */
const NAME_MAX = 64;

/** Returns the known name that is closest to `name`, or null if none is close enough. */
export function nearest(name: string, known: string[]): string | null {
  if (name.length > NAME_MAX) return null;
  const [first] = known.map((one): [number, string] => [edits(name, one), one]).filter(([many]) => many <= EDITS_MAX).sort(([a, x], [b, y]) => a - b || (x < y ? -1 : 1));
  return first?.[1] ?? null;
}

/** Returns the number of letters to insert, delete or change to turn one text into the other (Levenshtein). */
function edits(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 0; i < a.length; i++) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++) next.push(Math.min((row[j] ?? 0) + (a[i] === b[j] ? 0 : 1), (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    row = next;
  }
  return row[b.length] ?? 0;
}
