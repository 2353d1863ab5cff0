// What a reader could not read on the page as it is shown: faint text (below WCAG's AA), and boxes wider than their place.
const parse = (text) => {
  const parts = (text.match(/[\d.]+/g) ?? []).map(Number);
  return parts.length < 3 ? null : [...parts.slice(0, 3), parts[3] ?? 1];
};
const over = (top, under) => top.slice(0, 3).map((value, i) => value * top[3] + under[i] * (1 - top[3]));
const luminance = (color) => {
  const [r, g, b] = color.map((value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
function ground(element) {
  const layers = [];
  for (let each = element; each; each = each.parentElement) {
    const color = parse(getComputedStyle(each).backgroundColor);
    if (color?.[3] > 0) layers.unshift(color);
    if (color?.[3] === 1) break;
  }
  return layers.reduce((under, top) => over(top, under), [255, 255, 255]);
}
const faint = new Set();
let texts = 0;
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node; (node = walk.nextNode()); ) {
  const element = node.parentElement;
  if (!node.data.trim() || !element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
  const style = getComputedStyle(element);
  const color = parse(element instanceof SVGElement ? style.fill : style.color);
  if (!color) continue;
  texts += 1;
  for (let each = element; each; each = each.parentElement) color[3] *= Number(getComputedStyle(each).opacity);
  const below = ground(element);
  const [high, low] = [luminance(over(color, below)), luminance(below)].sort((a, b) => b - a);
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  if ((high + 0.05) / (low + 0.05) < (large ? 3 : 4.5)) faint.add(`${element.tagName} ${style.color}: ${node.data.trim().slice(0, 40)}`);
}
// Boxes that scroll by themselves hold what is wider than they are; a mark at a bar's end may stand out by half of its own width.
const wide = [...document.querySelectorAll("header *, main *")].filter((each) => {
  if (each instanceof SVGElement || each.closest(".chart") || !each.clientWidth || !each.checkVisibility()) return false;
  const style = getComputedStyle(each);
  return style.display !== "inline" && style.overflowX === "visible" && each.scrollWidth > each.clientWidth + 4;
});
return {
  texts,
  faint: [...faint],
  wide: wide.map((each) => `${each.tagName}#${each.id}.${each.className}: ${each.textContent.slice(0, 40)}`),
  page: document.documentElement.scrollWidth - document.documentElement.clientWidth,
};
