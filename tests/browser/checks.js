// What anybody can check of a page without taste: returns sentences about what is wrong with it.
() => {
  const wrong = [];
  const shown = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true })
    && element.getClientRects().length > 0;
  const text = (element) => (element?.textContent ?? "").trim();
  const describe = (element) => element.outerHTML.replace(/\s+/g, " ").slice(0, 120);

  const { scrollWidth, clientWidth } = document.documentElement;
  if (scrollWidth > clientWidth) {
    const widest = [...document.body.querySelectorAll("*")].filter((e) => e.getBoundingClientRect().right > clientWidth + 1);
    wrong.push(`is ${scrollWidth - clientWidth}px too wide: ${widest.slice(0, 2).map(describe).join(" ")}`);
  }
  const headings = [...document.querySelectorAll("h1")].filter(shown);
  if (headings.length !== 1) wrong.push(`has ${headings.length} h1`);
  if (!document.title) wrong.push("has no title");
  if (!document.querySelector("main")) wrong.push("has no main");

  // Accessible names, near enough to the standard's algorithm for our own markup.
  const name = (element) => {
    const by = (element.getAttribute("aria-labelledby") ?? "").split(/\s+/).filter(Boolean)
      .map((id) => text(document.getElementById(id))).join(" ");
    const labels = [...(element.labels ?? [])].map(text).join(" ");
    const images = [...element.querySelectorAll("img[alt], svg[aria-label]")]
      .map((image) => image.getAttribute("alt") ?? image.getAttribute("aria-label")).join(" ");
    const own = element.matches("button, a, summary, [role=button], [role=tab], [role=treeitem]") ? text(element) : "";
    return (by || element.getAttribute("aria-label") || labels || own || images || element.title).trim();
  };
  const controls = 'input:not([type="hidden"]), select, textarea, button, a[href], summary, [role="button"], [role="tab"], [role="separator"][tabindex]';
  for (const element of document.querySelectorAll(controls)) {
    if (shown(element) && !name(element)) wrong.push(`has a control without a name: ${describe(element)}`);
  }
  for (const image of document.querySelectorAll("img:not([alt])")) wrong.push(`has an image without alt: ${describe(image)}`);
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at))) wrong.push(`has the id ${id} twice`);

  // Contrast of text with what is behind it: 4.5, or 3 where letters are large.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((c, i) => c * a + under[i] * (1 - a));
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    const base = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
    return layers.reverse().reduce((under, layer) => over(layer, under), base);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const seen = new Set();
  for (const element of document.body.querySelectorAll("*:not(script, style, option, noscript, textarea)")) {
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) || !shown(element)) continue;
    if (element.closest(".sr-only, .skip, [disabled], [aria-hidden=true], .term-screen, .code-text")) continue;
    const style = getComputedStyle(element);
    const under = behind(element);
    const [a, b] = [light(over(rgba(style.color), under)), light(under)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize);
    const enough = size >= 24 || (size >= 18.6 && style.fontWeight >= 700) ? 3 : 4.5;
    const key = `${element.className} ${style.color}`;
    if (ratio < enough && !seen.has(key)) {
      seen.add(key);
      wrong.push(`has text of contrast ${ratio.toFixed(2)}: ${describe(element)}`);
    }
  }
  return wrong;
}
