"use strict";
(() => {
  const byId = (name) => document.getElementById(name);
  const parsed = (name) => JSON.parse(byId(name).textContent);
  const data = parsed("data");
  let results = null;
  let resultsText = null;
  const allResults = () => (results ??= JSON.parse(resultsText));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const hidden = new Set();
  const drawn = [];
  let printing = false;

  // ---- charts --------------------------------------------------------------------------------

  const isDark = () => dark.matches && !printing;
  const palette = () => data.palettes[isDark() ? "dark" : "light"];
  const colorOf = (side) => palette()[data.sides[side].color];
  const ground = () => (isDark() ? "#14171c" : "#ffffff");
  // The library reads a few tags, entities and placeholders in texts.
  const safe = (text) =>
    String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/%\{/g, "%\u200b{");
  const nameOf = (side) => safe(data.sides[side].name);

  function indices(index) {
    if (Array.isArray(index)) return index;
    return Array.from({ length: index.to - index.from }, (_, i) => index.from + i);
  }

  function series(run, name) {
    const raw = allResults()[run].run;
    if (name === "tokens") return raw.steps.map((step) => step * data.runs[run].tokens);
    return name === "wall" ? data.runs[run].wall : raw[name];
  }

  function lineTrace(chart, trace) {
    const color = colorOf(trace.side);
    const shared = {
      type: "scatter",
      name: nameOf(trace.side),
      legendgroup: `s${trace.side}`,
      showlegend: Boolean(trace.legend),
      meta: { side: trace.side, run: trace.run },
      visible: !hidden.has(trace.side),
    };
    if (trace.part === "level") {
      return {
        ...shared,
        mode: "lines",
        x: trace.ends,
        y: [trace.value, trace.value],
        line: { color, width: 5 },
        opacity: 0.45,
        hovertemplate: `${safe(trace.text)}<extra>${nameOf(trace.side)}</extra>`,
      };
    }
    const wanted = indices(trace.index);
    const xs = series(trace.run, trace.x);
    const ys = series(trace.run, trace.y);
    const raw = allResults()[trace.run].run;
    const run = data.runs[trace.run];
    const which = run.of > 1 ? `, run ${run.number}` : "";
    const place = wanted.map((i) => `step ${raw.steps[i]}${raw.lines[i] === null ? "" : `, line ${raw.lines[i]}`}${which}`);
    const spikes = trace.part === "spikes";
    return {
      ...shared,
      mode: spikes || wanted.length < 2 ? "markers" : wanted.length <= 30 ? "lines+markers" : "lines",
      x: wanted.map((i) => xs[i]),
      y: wanted.map((i) => ys[i]),
      text: place,
      customdata: wanted,
      line: { color, width: 1.4, dash: data.sides[trace.side].dash },
      marker: spikes ? { color, symbol: "circle-open", size: 7, line: { width: 1.3 } } : { color, size: 5 },
      opacity: trace.part === "warm-up" ? 0.4 : trace.pale ? 0.75 : 1,
      hovertemplate: `%{text}: %{y:.5~g} ${trace.y === "step_times" ? "s" : "nats/token"}<extra>${nameOf(trace.side)}</extra>`,
    };
  }

  function barTraces(chart) {
    if (chart.kind === "throughput") {
      return chart.traces.map((trace) => ({
        type: "bar",
        orientation: "h",
        name: nameOf(trace.side),
        meta: { side: trace.side },
        visible: !hidden.has(trace.side),
        x: trace.values,
        y: trace.names,
        hovertext: trace.texts,
        hoverinfo: "text",
        text: trace.values.map((value) => grouped(value, value >= 1000 ? 0 : value >= 100 ? 1 : 2)),
        textposition: "inside",
        insidetextanchor: "start",
        insidetextfont: { color: isDark() ? "#000000" : "#ffffff" },
        marker: { color: colorOf(trace.side) },
        error_x: {
          type: "data", symmetric: false, array: trace.above, arrayminus: trace.below,
          color: isDark() ? "#f2f2f2" : "#000000", thickness: 1.6, width: 6,
        },
        showlegend: false,
      }));
    }
    if (chart.kind === "memory") {
      return chart.kinds.map((kind) => ({
        type: "bar",
        orientation: "h",
        name: kind.title,
        x: kind.values,
        y: kind.names,
        hovertemplate: `%{x:.2f} GB ${kind.title}<extra></extra>`,
        text: kind.values.map((value) => value.toFixed(1)),
        textposition: "outside",
        cliponaxis: false,
        opacity: kind.pale ? 0.55 : 1,
        marker: {
          color: kind.sides.map(colorOf),
          pattern: { shape: kind.pattern, fgcolor: isDark() ? "#000000" : "#ffffff", size: 7 },
          line: { color: isDark() ? "#f2f2f2" : "#000000", width: 0.6 },
        },
      }));
    }
    return chart.parts.map((part, i) => ({
      type: "bar",
      orientation: "h",
      name: part.title,
      x: part.values,
      y: chart.names,
      hovertemplate: `%{x:.1f} % ${part.title}<extra></extra>`,
      marker: { color: palette()[i % palette().length] },
    }));
  }

  function layoutOf(chart) {
    const line = isDark() ? "#3a424d" : "#d0d7de";
    const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true, tickfont: { size: 12 } };
    const bars = !chart.traces || chart.kind === "throughput";
    const layout = {
      title: { text: safe(chart.title), x: 0, xref: "paper", font: { size: 15 } },
      font: { family: "system-ui, sans-serif", size: 13, color: isDark() ? "#e6e9ee" : "#1b1f24" },
      paper_bgcolor: ground(),
      plot_bgcolor: ground(),
      height: chart.height,
      margin: { l: 60, r: 30, t: 44, b: 50 + (bars && !chart.kinds && !chart.parts ? 0 : 30) },
      hovermode: "closest",
      hoverlabel: { align: "left" },
      legend: { orientation: "h", x: 0, xanchor: "left", y: 0, yanchor: "bottom", yref: "container", title: { text: "" } },
      xaxis: { ...axis, title: { text: safe(chart.x) } },
      yaxis: { ...axis, title: { text: safe(chart.y ?? "") } },
      shapes: (chart.floors ?? []).map((floor) => ({
        type: "line", xref: "paper", x0: 0, x1: 1, y0: floor, y1: floor,
        line: { color: isDark() ? "#e6e9ee" : "#1b1f24", width: 1.4, dash: "dot" },
      })),
      annotations: (chart.floors ?? []).map((floor) => ({
        xref: "paper", x: 1, xanchor: "right", y: chart.log ? Math.log10(floor) : floor, yanchor: "top",
        text: `entropy of the data ${floor.toPrecision(3)}`, showarrow: false, font: { size: 11 },
      })),
      bargap: 0.3,
      barmode: chart.kind === "memory" ? "group" : chart.kind === "breakdown" ? "stack" : "overlay",
    };
    if (bars) {
      const order = chart.order ?? chart.names;
      layout.yaxis = { ...axis, type: "category", categoryorder: "array", categoryarray: order, autorange: "reversed", ticks: "" };
      layout.xaxis.rangemode = "tozero";
      layout.legend.traceorder = "normal";
    }
    if (chart.kind === "throughput" || chart.kind === "steps") layout.xaxis.tickformat = ",";
    if (chart.log) layout.yaxis.type = "log";
    if (chart.range) layout.yaxis.range = chart.log ? chart.range.map(Math.log10) : chart.range;
    if (chart.kind === "loss-wall" || chart.kind === "loss-tokens" || chart.kind === "steps") layout.xaxis.rangemode = "tozero";
    return layout;
  }

  const tracesOf = (chart) => (chart.traces && chart.kind !== "throughput" ? chart.traces.map((trace) => lineTrace(chart, trace)) : barTraces(chart));

  function draw(chart) {
    const place = byId(chart.id);
    if (!place) return;
    const note = byId(`${chart.id}-note`);
    if (note && chart.note) note.textContent = chart.note;
    const config = {
      responsive: true,
      displaylogo: false,
      displayModeBar: innerWidth < 640 ? false : "hover",
      // Nothing is sent anywhere: the page's policy forbids it, and no button offers it.
      showSendToCloud: false,
      plotlyServerURL: "",
      modeBarButtonsToRemove: ["select2d", "lasso2d"],
      toImageButtonOptions: { format: "svg", filename: chart.id },
    };
    Plotly.newPlot(place, tracesOf(chart), layoutOf(chart), config);
    place.on("plotly_click", (event) => say(event.points[0]));
    drawn.push(chart);
  }

  function redraw(width) {
    for (const chart of drawn) {
      const layout = layoutOf(chart);
      if (width) layout.width = width;
      Plotly.react(byId(chart.id), tracesOf(chart), layout);
    }
    colorSwatches();
  }

  function colorSwatches() {
    for (const each of document.querySelectorAll(".swatch")) each.style.background = palette()[Number(each.dataset.color)];
  }

  function say(point) {
    const meta = point.data.meta;
    const status = byId("point");
    if (!status || !meta || meta.run === undefined || point.customdata === undefined) return;
    const result = allResults()[meta.run];
    const index = point.customdata;
    const line = result.run.lines[index];
    status.textContent = "";
    const link = document.createElement("a");
    link.href = `#r${meta.run}`;
    link.textContent = "its evidence";
    status.append(
      `${data.sides[meta.side].name}: step ${result.run.steps[index]}, ${result.run.step_times[index]} s, of ${result.file}` +
        (line === null ? "; " : `, line ${line} of the log; `),
      link,
    );
  }

  async function unpacked(block) {
    const bytes = Uint8Array.from(atob(block.textContent), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  async function loadResults() {
    const block = byId("results");
    resultsText = block.type === "application/gzip" ? await unpacked(block) : block.textContent;
  }

  async function loadLibrary() {
    const block = byId("library");
    if (!block) return false;
    const script = document.createElement("script");
    script.textContent = await unpacked(block);
    document.head.append(script);
    block.remove();
    return typeof Plotly !== "undefined";
  }

  // ---- sides on and off ----------------------------------------------------------------------

  function show(side, shown) {
    if (shown) hidden.delete(side);
    else hidden.add(side);
    for (const chart of drawn) {
      const place = byId(chart.id);
      const found = place.data.map((trace, i) => (trace.meta && trace.meta.side === side ? i : -1)).filter((i) => i >= 0);
      if (found.length) Plotly.restyle(place, { visible: shown }, found);
    }
  }

  // ---- the window ----------------------------------------------------------------------------

  function moveWindow(number, moved) {
    const grid = data.windows[number];
    const [begin, end] = ["begin", "end"].map((which) => byId(`window-${number}-${which}`));
    if (Number(begin.value) >= Number(end.value)) {
      if (moved === begin) end.value = String(Math.min(Number(begin.value) + 1, grid.stops.length - 1));
      else begin.value = String(Math.max(Number(end.value) - 1, 0));
    }
    const from = Number(begin.value);
    const to = Number(end.value);
    for (const [input, at] of [[begin, from], [end, to]]) {
      byId(`${input.id}-text`).textContent = grid.stops[at];
      input.setAttribute("aria-valuetext", `step ${grid.stops[at]}`);
    }
    const put = (kind, texts) =>
      texts.forEach((table, i) => {
        const place = byId(`window-${number}-${kind}-${i}`);
        if (place) place.textContent = table[from][to] ?? "too few steps";
      });
    put("rate", grid.rates);
    // Pairs are in the order of the sides after the reference.
    put("ratio", [[], ...grid.ratios]);
  }

  // ---- prices --------------------------------------------------------------------------------

  const grouped = (value, digits) => value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });

  function figure(value) {
    const size = Math.abs(value);
    return size >= 1000 ? grouped(value, 0) : size >= 10 ? value.toFixed(1) : String(Number(value.toPrecision(3)));
  }

  const times = (value) => value.toFixed(value > 0.95 && value < 1.05 ? 3 : 2);
  const dollars = (value) => `$${value.toFixed(2)}`;

  function span(low, high, form) {
    const [one, other] = [form(low), form(high)];
    return one === other ? one : `${one} to ${other}`;
  }

  function bounded(value, low, high) {
    const text = figure(value);
    return figure(low) === figure(high) ? text : `${text} (${figure(low)}–${figure(high)})`;
  }

  function priceOf(text) {
    const parts = text.trim().split(":").map((part) => part.trim().replace(/^\$/, ""));
    if (parts.length > 2 || parts.some((part) => !/^\d*\.?\d+(e[+-]?\d+)?$/i.test(part))) return null;
    const [low, high] = [Number(parts[0]), Number(parts[parts.length - 1])];
    return low > 0 && high >= low && Number.isFinite(high) ? { low, high } : null;
  }

  function reckon() {
    const prices = new Map();
    let wrong = 0;
    for (const input of document.querySelectorAll("[data-price]")) {
      const price = input.value.trim() ? priceOf(input.value) : null;
      const bad = Boolean(input.value.trim()) && price === null;
      input.setAttribute("aria-invalid", String(bad));
      wrong += Number(bad);
      if (price) prices.set(Number(input.dataset.price), price);
    }
    const help = byId("price-help");
    if (help) help.textContent = wrong ? "A price is a number above 0 such as 2.95, or a range such as 2.20:3.10." : "";
    const cost = data.cost;
    const priceAt = (side) => prices.get(cost.sides[side].field);
    cost.sides.forEach((side, i) => {
      const price = prices.get(side.field);
      side.levels.forEach((level, number) => {
        const middle = price ? (price.low + price.high) / 2 : null;
        byId(`cost-${i}-${number}-rate`).textContent = price
          ? bounded(level.value / middle, level.low / price.high, level.high / price.low)
          : "–";
        byId(`cost-${i}-${number}-price`).textContent = price
          ? bounded((1e12 / level.value) * middle, (1e12 / level.high) * price.low, (1e12 / level.low) * price.high)
          : "–";
      });
    });
    cost.pairs.forEach((pair, number) => {
      const put = (kind, text) => (byId(`pair-${number}-${kind}`).textContent = text);
      const [reference, side] = [priceAt(pair.reference), priceAt(pair.side)];
      put("even", reference ? span(pair.low * reference.low, pair.high * reference.high, dollars) : "–");
      if (!reference || !side) {
        for (const kind of ["times", "winner", "below"]) put(kind, "–");
        return;
      }
      const [low, high] = [(pair.low * reference.low) / side.high, (pair.high * reference.high) / side.low];
      put("times", span(low, high, times));
      const winner = low > 1 ? pair.side : high < 1 ? pair.reference : null;
      put("winner", winner === null ? "can't be told" : data.sides[winner].name);
      if (winner === null) put("below", "–");
      else if (winner === pair.side) put("below", span(side.low / pair.high, side.high / pair.low, dollars));
      else put("below", span(reference.low * pair.low, reference.high * pair.high, dollars));
    });
  }

  // ---- raw data ------------------------------------------------------------------------------

  function download(name, kind, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: kind }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  const SERIES = ["steps", "window_steps", "step_times", "loss_values", "learning_rates", "grad_norms", "lines"];

  function csvCell(value) {
    if (value === null || value === undefined) return "";
    if (typeof value === "number") return String(value);
    // A spreadsheet takes a text that begins like this for a formula.
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  }

  function csv() {
    const rows = [["model", "side", "file", "run", ...SERIES]];
    allResults().forEach((result, i) => {
      result.run.steps.forEach((_, at) => {
        rows.push([result.model, result.side, result.file, data.runs[i].number, ...SERIES.map((name) => result.run[name][at])]);
      });
    });
    return rows.map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
  }

  function fillSteps(place) {
    if (place.dataset.filled) return;
    place.dataset.filled = "yes";
    const result = allResults()[Number(place.dataset.run)];
    const run = data.runs[Number(place.dataset.run)];
    const state = (step) => {
      const level = run.levels.findIndex(([first, last]) => step >= first && step <= last);
      if (level >= 0) return run.levels.length > 1 ? `level ${level + 1}` : "steady";
      return run.steady[0] !== null && step >= run.steady[0] ? "counted" : "before";
    };
    const wide = document.createElement("div");
    wide.className = "wide";
    wide.tabIndex = 0;
    const table = wide.appendChild(document.createElement("table"));
    const head = table.createTHead().insertRow();
    for (const title of ["Step", "Step time, s", "Loss, nats/token", "Steps averaged", "Line of the log", "Counts as"]) {
      const cell = head.appendChild(document.createElement("th"));
      cell.scope = "col";
      cell.textContent = title;
    }
    const body = table.createTBody();
    result.run.steps.forEach((step, i) => {
      const row = body.insertRow();
      row.id = `r${place.dataset.run}-step-${step}`;
      for (const value of [step, result.run.step_times[i], result.run.loss_values[i], result.run.window_steps[i], result.run.lines[i], state(step)]) {
        row.insertCell().textContent = value ?? "–";
      }
    });
    place.append(wide);
  }

  // ---- setting up ----------------------------------------------------------------------------

  function openTarget() {
    const target = location.hash.length > 1 ? byId(decodeURIComponent(location.hash.slice(1))) : null;
    for (let each = target; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
    if (target) target.scrollIntoView();
  }

  const there = loadResults();
  for (const input of document.querySelectorAll("input[data-window]")) {
    input.addEventListener("input", () => moveWindow(Number(input.dataset.window), input));
  }
  for (const input of document.querySelectorAll("[data-price]")) input.addEventListener("input", reckon);
  for (const box of document.querySelectorAll("[data-side]")) {
    box.addEventListener("change", () => show(Number(box.dataset.side), box.checked));
  }
  for (const place of document.querySelectorAll("details.steps")) {
    place.addEventListener("toggle", () => place.open && there.then(() => fillSteps(place)));
  }
  byId("download-json")?.addEventListener("click", () =>
    there.then(() => download("tprimat-results.json", "application/json", resultsText)),
  );
  byId("download-csv")?.addEventListener("click", () => there.then(() => download("tprimat-steps.csv", "text/csv", csv())));
  addEventListener("hashchange", openTarget);
  reckon();
  openTarget();

  let folded = [];
  addEventListener("beforeprint", () => {
    printing = true;
    folded = [...document.querySelectorAll("details:not([open]):not(.steps)")];
    for (const each of folded) each.open = true;
    if (drawn.length) redraw(690);
  });
  addEventListener("afterprint", () => {
    printing = false;
    for (const each of folded) each.open = false;
    if (drawn.length) redraw(null);
  });
  dark.addEventListener("change", () => drawn.length && redraw(null));

  there
    .then(loadLibrary)
    .then((drawable) => {
      if (drawable) {
        colorSwatches();
        data.charts.forEach(draw);
      }
      document.documentElement.dataset.ready = drawable ? "charts" : "tables";
    })
    .catch((error) => {
      document.documentElement.dataset.ready = "failed";
      const status = byId("point");
      if (status) status.textContent = "The charts can't be shown in this browser; the tables hold the same figures.";
      console.error(error);
    });
})();
