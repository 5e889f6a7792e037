// Which lines two texts have in common.

/// Beyond this many comparisons the differing middle is shown as one change.
const MOST_WORK = 4_000_000;

/// A list of [left, right] line numbers from zero; null where a line has no counterpart.
export function pairLines(left, right) {
  let head = 0;
  while (head < left.length && head < right.length && left[head] === right[head]) head++;
  let tail = 0;
  while (tail < left.length - head && tail < right.length - head && left.at(-1 - tail) === right.at(-1 - tail)) tail++;
  const pairs = [];
  for (let n = 0; n < head; n++) pairs.push([n, n]);
  pairs.push(...middle(left.slice(head, left.length - tail), right.slice(head, right.length - tail))
    .map(([a, b]) => [a === null ? null : a + head, b === null ? null : b + head]));
  for (let n = tail; n > 0; n--) pairs.push([left.length - n, right.length - n]);
  return pairs;
}

function middle(left, right) {
  const [rows, columns] = [left.length, right.length];
  const apart = () => [...left.map((_, n) => [n, null]), ...right.map((_, n) => [null, n])];
  if (!rows || !columns || rows * columns > MOST_WORK) return apart();
  // The longest common subsequence, from the end.
  const width = columns + 1;
  const common = new Uint32Array((rows + 1) * width);
  for (let a = rows - 1; a >= 0; a--) {
    for (let b = columns - 1; b >= 0; b--) {
      common[a * width + b] = left[a] === right[b]
        ? common[(a + 1) * width + b + 1] + 1
        : Math.max(common[(a + 1) * width + b], common[a * width + b + 1]);
    }
  }
  const pairs = [];
  let [a, b] = [0, 0];
  while (a < rows || b < columns) {
    if (a < rows && b < columns && left[a] === right[b]) pairs.push([a++, b++]);
    else if (b === columns || (a < rows && common[(a + 1) * width + b] >= common[a * width + b + 1])) pairs.push([a++, null]);
    else pairs.push([null, b++]);
  }
  return pairs;
}
