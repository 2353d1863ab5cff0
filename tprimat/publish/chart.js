// The chart over time: uPlot draws axes and the best so far of each GPU; each point is drawn here, filled, hollow or crossed.
"use strict";
// Make an empty chart in an element. `textOf` gives the text of a row's point; `select` is called with the row of one that is clicked.
window.makeChart = (element, textOf, select) => {
  const HEIGHT = 260;
  const NEAR = 15; // pixels
  const DASHES = [[], [8, 4], [3, 3], [12, 4, 3, 4]];
  let plot = null;
  let points = []; // {i, x (s), y, key, color, kind, repeat: of how many GPUs before it has the color}, and where each is drawn: left, top

  function drawPoints(u) {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    const ground = getComputedStyle(document.body).backgroundColor;
    ctx.save();
    ctx.setLineDash([]);
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.lineWidth = 1.6 * ratio;
    const paths = new Map(); // one for each color and kind: 10,000 paths of their own take long
    for (const each of points) {
      const [x, y, size] = [u.valToPos(each.x, "x", true), u.valToPos(each.y, "y", true), 4 * ratio];
      [each.left, each.top] = [(x - bbox.left) / ratio, (y - bbox.top) / ratio];
      const style = `${each.color} ${each.kind}`;
      if (!paths.has(style)) paths.set(style, new Path2D());
      const path = paths.get(style);
      if (each.kind === "contradicts") {
        for (const sign of [1, -1]) {
          path.moveTo(x - size, y - sign * size);
          path.lineTo(x + size, y + sign * size);
        }
      } else if (each.repeat) path.rect(x - size, y - size, 2 * size, 2 * size);
      else {
        path.moveTo(x + size, y);
        path.arc(x, y, size, 0, 2 * Math.PI);
      }
    }
    for (const [style, path] of paths) {
      const [color, kind] = style.split(" ");
      ctx.strokeStyle = color;
      ctx.fillStyle = kind === "log" ? color : ground;
      if (kind !== "contradicts") ctx.fill(path);
      ctx.stroke(path);
    }
    ctx.restore();
  }

  function nearest({ left, top }) {
    let [found, least] = [null, NEAR ** 2];
    for (const each of left < 0 ? [] : points) {
      const distance = (each.left - left) ** 2 + (each.top - top) ** 2;
      if (distance < least) [found, least] = [each, distance];
    }
    return found;
  }

  function showTip(u) {
    const tip = u.over.querySelector(".tip");
    const each = nearest(u.cursor);
    u.over.classList.toggle("pointing", Boolean(each));
    if (!tip) return;
    tip.hidden = !each;
    if (!each) return;
    tip.textContent = textOf(each.i);
    tip.style.left = `${Math.max(0, Math.min(each.left + 12, u.over.clientWidth - tip.offsetWidth))}px`;
    tip.style.top = `${each.top > 60 ? each.top - tip.offsetHeight - 10 : each.top + 12}px`;
  }

  // The best so far of a line at each time at which it has a point.
  function frontier(xs, key, isTime) {
    const own = points.filter((each) => each.key === key && each.kind !== "contradicts");
    const better = isTime ? Math.min : Math.max;
    let [next, best] = [0, null];
    return xs.map((x) => {
      const before = next;
      for (; next < own.length && own[next].x === x; next += 1) best = best === null ? own[next].y : better(best, own[next].y);
      return next > before ? best : null;
    });
  }

  // As the tables write them: months, or days where ticks are closer.
  function dates(u, ticks) {
    const length = ticks.length > 1 && ticks[1] - ticks[0] > 27 * 86400 ? 7 : 10;
    return ticks.map((stamp) => new Date(stamp * 1e3).toISOString().slice(0, length));
  }

  function draw({ points: given, lines, isTime }) {
    plot?.destroy();
    plot = null;
    points = [...given].sort((a, b) => a.x - b.x);
    if (!points.length) return;
    const xs = [...new Set(points.map((each) => each.x))];
    const [first, last] = [xs[0], xs[xs.length - 1]];
    const margin = xs.length > 1 ? (last - first) / 50 : 90 * 86400;
    const style = getComputedStyle(document.documentElement);
    const [text, line] = ["--faint", "--line"].map((each) => style.getPropertyValue(each));
    const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    plot = new uPlot({
      width: element.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      tzDate: (stamp) => uPlot.tzDate(new Date(stamp * 1e3), "Etc/UTC"),
      cursor: { points: { show: false }, drag: { x: true, y: false } },
      scales: {
        x: { range: (u, low, high) => (low > first || high < last ? [low, high] : [first - margin, last + margin]) },
        y: { range: (u, low, high) => [0, (high || 1) * 1.06] },
      },
      axes: [{ ...axis, space: 90, values: dates }, { ...axis, size: 64, values: (u, ticks) => ticks.map((each) => each.toLocaleString("en-US")) }],
      series: [{}, ...lines.map((each) => ({ stroke: each.color, width: 2, dash: DASHES[each.repeat % DASHES.length], spanGaps: true, points: { show: false },
        paths: uPlot.paths.stepped({ align: 1 }) }))],
      hooks: { draw: [drawPoints], setCursor: [showTip] },
    }, [xs, ...lines.map((each) => frontier(xs, each.key, isTime))], element);
    const tip = plot.over.appendChild(document.createElement("div"));
    tip.className = "tip";
    tip.hidden = true;
    plot.over.addEventListener("click", () => {
      const each = plot.select.width ? null : nearest(plot.cursor);
      if (each) select(each.i);
    });
  }

  new ResizeObserver(() => plot?.setSize({ width: element.clientWidth, height: HEIGHT })).observe(element);
  return { draw };
};
