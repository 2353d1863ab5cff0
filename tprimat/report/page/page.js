"use strict";
(() => {
  const byId = (name) => document.getElementById(name);
  const parsed = (name) => JSON.parse(byId(name).textContent);
  const data = parsed("data");
  let results = null;
  let resultsText = null;
  let library = null;
  const allResults = () => (results ??= JSON.parse(resultsText));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const hidden = new Set();
  const drawn = [];

  // ---- charts --------------------------------------------------------------------------------

  const isDark = () => dark.matches;
  const tone = (pair) => pair[isDark() ? 1 : 0];
  const colorOf = (system) => tone(data.palettes.systems[data.systems[system].color]);
  const partColor = (number) => tone(data.palettes.parts[number % data.palettes.parts.length]);
  const ground = () => (isDark() ? "#14171c" : "#ffffff");
  // The library reads a few tags, entities and placeholders in texts.
  const safe = (text) =>
    String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/%\{/g, "%\u200b{");
  const nameOf = (system) => safe(data.systems[system].name);

  function indices(index) {
    if (Array.isArray(index)) return index;
    return Array.from({ length: index.to - index.from }, (_, i) => index.from + i);
  }

  function series(run, name, scale) {
    const raw = allResults()[run].run;
    if (name === "tokens") return raw.steps.map((step) => (step * data.runs[run].tokens) / scale);
    return name === "wall" ? data.runs[run].wall : raw[name];
  }

  function lineTrace(chart, trace) {
    const color = colorOf(trace.system);
    const shared = {
      type: "scatter",
      name: nameOf(trace.system),
      legendgroup: `s${trace.system}`,
      showlegend: Boolean(trace.legend),
      meta: { system: trace.system, run: trace.run },
      visible: !hidden.has(trace.system),
    };
    if (trace.part === "segment") {
      return {
        ...shared,
        mode: "lines",
        x: trace.ends,
        y: [trace.value, trace.value],
        line: { color, width: 5 },
        opacity: 0.45,
        hovertemplate: `${safe(trace.text)}<extra>${nameOf(trace.system)}</extra>`,
      };
    }
    const wanted = indices(trace.index);
    const xs = series(trace.run, trace.x, chart.scale);
    const ys = series(trace.run, trace.y);
    const raw = allResults()[trace.run].run;
    const run = data.runs[trace.run];
    const which = run.runs > 1 ? `, run ${run.number}` : "";
    const place = wanted.map((i) => `step ${raw.steps[i]}${raw.lines[i] === null ? "" : `, line ${raw.lines[i]}`}${which}`);
    const [outliers, excluded] = ["outliers", "excluded"].map((part) => trace.part === part);
    return {
      ...shared,
      mode: outliers || wanted.length < 2 ? "markers" : wanted.length <= 30 && !excluded ? "lines+markers" : "lines",
      x: wanted.map((i) => xs[i]),
      y: wanted.map((i) => ys[i]),
      text: place,
      customdata: wanted,
      line: { color, width: trace.thin ? 0.7 : 1.6, dash: excluded ? "1px,2px" : data.systems[trace.system].dash },
      marker: outliers ? { color, symbol: "circle-open", size: 7, line: { width: 1.3 } } : { color, size: 5 },
      opacity: excluded ? 0.6 : 1,
      hovertemplate: `%{text}: %{y:.5~g} ${trace.y === "step_times" ? "s" : "nats/token"}<extra>${nameOf(trace.system)}</extra>`,
    };
  }

  // A series of telemetry below the step times, on the same axis; a value is that of the steps up to its own.
  function panelTrace(chart, number, trace) {
    const telemetry = allResults()[trace.run].run.telemetry;
    return {
      type: "scatter",
      mode: telemetry.steps.length < 2 ? "markers" : "lines",
      name: nameOf(trace.system),
      legendgroup: `s${trace.system}`,
      showlegend: false,
      meta: { system: trace.system },
      visible: !hidden.has(trace.system),
      x: telemetry.steps,
      y: telemetry.series[trace.series],
      yaxis: `y${number + 2}`,
      line: { color: colorOf(trace.system), width: 1.4, shape: "vh", dash: data.systems[trace.system].dash },
      opacity: 0.85,
      hovertemplate: `up to step %{x:,}: %{y:.4~g} ${safe(chart.panels[number].unit)}<extra>${nameOf(trace.system)}</extra>`,
    };
  }

  // Divides the height: the step times take what the panels below leave them.
  function addPanels(chart, layout, axis) {
    const gap = 26 / (chart.height - 124);
    const each = 94 / (chart.height - 124);
    layout.yaxis.domain = [chart.panels.length * (each + gap), 1];
    layout.xaxis.anchor = `y${chart.panels.length + 1}`;
    chart.panels.forEach((panel, number) => {
      const top = (chart.panels.length - number) * (each + gap) - gap;
      layout[`yaxis${number + 2}`] = {
        ...axis, domain: [Math.max(0, top - each), top], title: { text: safe(panel.unit) }, nticks: 4, anchor: "x",
      };
      layout.annotations.push({
        xref: "paper", x: 0, xanchor: "left", yref: "paper", y: top, yanchor: "bottom",
        text: safe(panel.title), showarrow: false, font: { size: 12 },
      });
    });
  }

  function barTraces(chart) {
    if (chart.kind === "memory") {
      const rows = chart.kinds.flatMap((kind, number) =>
        ["average", "peak"].map((word) => ({
          kind, word, bars: chart.bars.filter((bar) => bar.kind === number && bar[word] !== null),
        })),
      );
      return rows.filter(({ bars }) => bars.length).map(({ kind, word, bars }) => ({
        type: "bar",
        orientation: "h",
        name: `${kind.title}, ${word}`,
        x: bars.map((bar) => bar[word]),
        y: bars.map((bar) => bar.name),
        hovertemplate: `%{x:.2f} GB ${kind.title}, ${word}<extra></extra>`,
        text: bars.map((bar) => bar[word].toFixed(1)),
        textposition: "outside",
        cliponaxis: false,
        marker: {
          opacity: word === "peak" ? 0.55 : 1,
          color: bars.map((bar) => colorOf(bar.system)),
          pattern: { shape: kind.pattern, fgcolor: isDark() ? "#000000" : "#ffffff", size: 7 },
          line: { color: isDark() ? "#f2f2f2" : "#000000", width: 0.6 },
        },
      }));
    }
    if (chart.kind === "waterfall") {
      const last = chart.names.length - 1;
      const [whole, more, less] = [0, 1, 2].map(partColor);
      return [{
        type: "bar",
        orientation: "h",
        y: chart.names,
        x: chart.values,
        base: chart.bases,
        text: chart.values.map((value, i) => (i === 0 || i === last ? value.toFixed(2) : `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`)),
        textposition: "outside",
        cliponaxis: false,
        customdata: chart.notes,
        hovertemplate: "%{y}: %{text} ms<br>%{customdata}<extra></extra>",
        marker: { color: chart.values.map((value, i) => (i === 0 || i === last ? whole : value > 0 ? more : less)) },
        showlegend: false,
      }];
    }
    return chart.parts.map((part, i) => ({
      type: "bar",
      orientation: "h",
      name: part.title,
      x: part.values,
      y: chart.names,
      hovertemplate: `%{x:.1f} % ${part.title}<extra></extra>`,
      marker: { color: partColor(i) },
    }));
  }

  function layoutOf(chart) {
    const line = isDark() ? "#3a424d" : "#d0d7de";
    const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true, tickfont: { size: 12 } };
    const bars = !chart.traces;
    const layout = {
      title: { text: safe(chart.title), x: 0, xref: "paper", font: { size: 15 } },
      font: { family: "system-ui, sans-serif", size: 13, color: isDark() ? "#e6e9ee" : "#1b1f24" },
      paper_bgcolor: ground(),
      plot_bgcolor: ground(),
      height: chart.height,
      margin: { l: 60, r: 30, t: 44, b: 80 },
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
        text: `data entropy ${floor.toPrecision(3)}`, showarrow: false, font: { size: 11 },
      })),
      bargap: 0.3,
      barmode: chart.kind === "memory" ? "group" : chart.kind === "breakdown" ? "stack" : "overlay",
    };
    for (const event of chart.events ?? []) {
      layout.shapes.push({
        type: "rect", xref: "x", x0: event.from, x1: event.to, yref: "paper", y0: 0, y1: 1, layer: "below",
        fillcolor: colorOf(event.system), opacity: 0.13, line: { width: 0 },
      });
    }
    if (chart.panels?.length) addPanels(chart, layout, axis);
    if (bars) {
      const order = chart.order ?? chart.names;
      layout.yaxis = { ...axis, type: "category", categoryorder: "array", categoryarray: order, autorange: "reversed", ticks: "" };
      layout.xaxis.rangemode = "tozero";
      layout.legend.traceorder = "normal";
    }
    if (chart.kind === "steps") layout.xaxis.tickformat = ",";
    if (chart.log) layout.yaxis.type = "log";
    if (chart.range) layout.yaxis.range = chart.log ? chart.range.map(Math.log10) : chart.range;
    if (chart.kind === "loss-wall" || chart.kind === "loss-tokens" || chart.kind === "steps") layout.xaxis.rangemode = "tozero";
    return layout;
  }

  const tracesOf = (chart) =>
    chart.traces
      ? [
          ...chart.traces.map((trace) => lineTrace(chart, trace)),
          ...(chart.panels ?? []).flatMap((panel, i) => panel.traces.map((trace) => panelTrace(chart, i, trace))),
        ]
      : barTraces(chart);

  function draw(chart) {
    const place = byId(chart.id);
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

  function redraw() {
    for (const chart of drawn) Plotly.react(byId(chart.id), tracesOf(chart), layoutOf(chart));
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
    link.textContent = "Show calculation";
    status.append(
      `${data.systems[meta.system].name}: step ${result.run.steps[index]}, ${result.run.step_times[index]} s, ${result.file}` +
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
    resultsText = await unpacked(byId("results"));
  }

  async function loadLibrary() {
    const block = byId("library");
    const script = document.createElement("script");
    script.textContent = await unpacked(block);
    document.head.append(script);
    block.remove();
  }

  // ---- systems on and off ----------------------------------------------------------------------

  function show(system, shown) {
    if (shown) hidden.delete(system);
    else hidden.add(system);
    for (const chart of drawn) {
      const place = byId(chart.id);
      const found = place.data.map((trace, i) => (trace.meta && trace.meta.system === system ? i : -1)).filter((i) => i >= 0);
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
    put("ratio", grid.ratios);
  }

  // ---- prices --------------------------------------------------------------------------------

  function amount(value) {
    const size = Math.abs(value);
    if (size >= 1000) return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
    return size >= 10 ? value.toFixed(1) : String(Number(value.toPrecision(3)));
  }

  const dollars = (value) => `$${value >= 0.1 ? value.toFixed(2) : Number(value.toPrecision(3))}`;
  const percent = (value) => (value >= 0.995 ? ">99" : value >= 0.01 ? (100 * value).toFixed(0) : String(Number((100 * value).toPrecision(1))));
  const span = (values, form) => [...new Set(values.map(form))].join("–");
  const price = ({ low, high }) =>
    [...new Set([low, high].map((bound) => (Number(bound.toFixed(2)) === bound ? `$${bound.toFixed(2)}` : `$${bound}`)))].join(" to ");

  function priceOf(text) {
    const parts = text.trim().split(":").map((part) => part.trim().replace(/^\$/, ""));
    if (parts.length > 2 || parts.some((part) => !/^\d*\.?\d+(e[+-]?\d+)?$/i.test(part))) return null;
    const [low, high] = [Number(parts[0]), Number(parts[parts.length - 1])];
    return low > 0 && high >= low && Number.isFinite(high) ? { low, high } : null;
  }

  // The rule and the words are Python's (compare/cost.py, report/costs.py): linear forms of the prices, texts with slots.
  function costSentence(pair, fast, slow) {
    if (!fast && !slow) return pair.unknown;
    const prices = [fast, slow].flatMap((each) => (each ? [each.low, each.high] : [0, 0]));
    const sum = (form) => form.reduce((total, factor, i) => total + factor * prices[i], 0);
    const holds = ({ below_zero }) => below_zero === null || sum(below_zero) < 0;
    const filled = (text, values) => text.map((piece) => (typeof piece === "string" ? piece : values[piece.slot])).join("");
    if (!fast || !slow) {
      // What is priced costs as much as the other one at its break-even price.
      const [low, high] = pair.outcomes[fast ? 0 : 1].even.map((form) => dollars(sum(form)));
      return filled([...pair.one[fast ? 0 : 1], ...(low === high ? [] : pair.above)], { price: price(fast || slow), low, high });
    }
    const { saving, even, text } = pair.outcomes.find(holds);
    const values = {
      faster_price: price(fast),
      slower_price: price(slow),
      saving: span(saving.map(([part, whole]) => 1 - sum(part) / sum(whole)), percent),
      even: span(even.map(sum), dollars),
    };
    return filled(text, values);
  }

  function computeCost() {
    const prices = new Map();
    for (const input of document.querySelectorAll("[data-price]")) {
      const found = priceOf(input.value);
      input.setAttribute("aria-invalid", String(Boolean(input.value.trim()) && found === null));
      if (found) prices.set(Number(input.dataset.price), found);
    }
    const priceAt = (system) => prices.get(data.systems[system].color);
    data.systems.forEach((system, i) => {
      const output = byId(`per-token-${i}`);
      const own = priceAt(i);
      if (output) output.textContent = own ? span([system.cost * own.low, system.cost * own.high], amount) : "–";
    });
    for (const pair of data.costs) {
      const place = byId(`cost-${pair.answer}`);
      if (place) place.textContent = costSentence(pair, priceAt(pair.faster), priceAt(pair.slower));
    }
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
    const text = /^[=+\-@\t\r＝＋－＠]/.test(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  }

  function csv() {
    const rows = [["model", "system", "file", "run", ...SERIES]];
    allResults().forEach((result, i) => {
      result.run.steps.forEach((_, at) => {
        rows.push([result.model, result.system, result.file, data.runs[i].number, ...SERIES.map((name) => result.run[name][at])]);
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
      const segment = run.segments.findIndex(([first, last]) => step >= first && step <= last);
      if (segment >= 0) return run.segments.length > 1 ? `segment ${segment + 1}` : "steady state";
      if (run.steady[0] !== null && step > run.steady[1]) return "excluded";
      return run.steady[0] !== null && step >= run.steady[0] ? "used" : "warm-up";
    };
    const wide = document.createElement("div");
    wide.className = "wide";
    wide.tabIndex = 0;
    const table = wide.appendChild(document.createElement("table"));
    const head = table.createTHead().insertRow();
    for (const title of ["Step", "Time, s", "Loss", "Averaged", "Log line", "State"]) {
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
  for (const input of document.querySelectorAll("[data-price]")) input.addEventListener("input", computeCost);
  for (const box of document.querySelectorAll("[data-system]")) {
    box.addEventListener("change", () => show(Number(box.dataset.system), box.checked));
  }
  for (const place of document.querySelectorAll("details.steps")) {
    place.addEventListener("toggle", () => place.open && there.then(() => fillSteps(place)));
  }
  byId("download-json")?.addEventListener("click", () =>
    there.then(() => download("tprimat-results.json", "application/json", resultsText)),
  );
  byId("download-csv")?.addEventListener("click", () => there.then(() => download("tprimat-steps.csv", "text/csv", csv())));
  addEventListener("hashchange", openTarget);
  computeCost();
  if (innerWidth < 640) byId("prices")?.removeAttribute("open");
  openTarget();

  // On paper: the card with its caveats, the results table, the first configuration diff.
  const printed = document.querySelectorAll(".chip, #tables, #config_diff");
  const opened = new Set();
  addEventListener("beforeprint", () => {
    for (const each of printed) if (!each.open) opened.add(each), (each.open = true);
  });
  addEventListener("afterprint", () => {
    for (const each of opened) each.open = false;
    opened.clear();
  });
  dark.addEventListener("change", redraw);

  // A chart is drawn once it is seen: opening a fold shows those in it.
  function drawCharts() {
    const wanted = () => data.charts.filter((chart) => !drawn.includes(chart) && !byId(chart.id).closest("details:not([open])"));
    if (!wanted().length) return;
    there
      .then(() => (library ??= loadLibrary()))
      .then(() => wanted().forEach(draw))
      .catch((error) => {
        const status = byId("point");
        if (status) status.textContent = "This browser cannot show the charts; the tables have the same values.";
        console.error(error);
      });
  }
  document.addEventListener("toggle", drawCharts, true);
  drawCharts();
  there.finally(() => (document.documentElement.dataset.ready = "yes")).catch(() => {});
})();
