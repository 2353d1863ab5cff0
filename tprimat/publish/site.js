// The index: filters kept in the address, the fastest of each GPU, a chart over time, all results, and two of them compared.
// The record is data/record.js: columns, so that rows are numbers. Texts enter the page as text alone.
"use strict";
(() => {
  const byId = (name) => document.getElementById(name);
  const R = window.RECORD;
  if (!R?.points?.gpu) {
    byId("broken").hidden = false;
    return;
  }
  const P = R.points;
  const WORDS = JSON.parse(byId("words").textContent);
  const [LOG, FLOPS] = WORDS.marks;
  const isRejected = (i) => WORDS.rejected.includes(P.mark[i]);
  const MARK_CLASS = Object.fromEntries(WORDS.marks.map((each, i) => [each, ["log", "flops", "published"][i] ?? "contradicts"]));
  const ROWS = P.gpu.map((_, i) => i);
  const GPU_NUMBER = new Map(Object.keys(R.gpus).map((key, i) => [key, i]));
  const NUMBER_OF_ID = new Map(P.id.map((id, i) => [id, i]));
  const PAIRS = new Map(R.pairs.flatMap(([a, b, ratio, low, high]) => [
    [`${a} ${b}`, { ratio, low, high }],
    [`${b} ${a}`, { ratio: 1 / ratio, low: 1 / high, high: 1 / low }],
  ]));
  const METRICS = {
    tokens: { field: "tokens_per_second_per_gpu", unit: "tokens/s/GPU", scale: 1 },
    tflops: { field: "tflops_per_gpu", unit: "TFLOP/s/GPU", scale: 1 },
    printed: { field: "printed_tflops_per_gpu", unit: "TFLOP/s/GPU as printed", scale: 1 },
    target: { field: "time_to_target_seconds", unit: "min to target", scale: 60, isTime: true },
    samples: { field: "samples_per_second", unit: "samples/s, all GPUs", scale: 1 },
  };
  const BEST = 8;
  const PAGE = 50;

  // ---- words ---------------------------------------------------------------------------------

  const softwareOf = new Map(WORDS.software.map(([framework, version, text]) => [`${framework}\n${version}`, text]));
  const task = (key) => WORDS.tasks[key] ?? key;
  const framework = (key) => WORDS.frameworks[key] ?? (key.replaceAll("_", "-") || "not stated");
  const software = (i) => softwareOf.get(`${P.framework[i]}\n${P.version[i]}`) || "";
  const NUMBER = new Intl.NumberFormat("en-US");
  const counted = (number, noun) => `${NUMBER.format(number)} ${noun}${number === 1 ? "" : "s"}`;
  const tokens = (length) => (length ? `${NUMBER.format(length)} tokens per sequence` : "sequence length not stated");
  const precision = (i) => (P.precision[i] ? ` (${P.precision[i].toUpperCase()})` : "");
  const gpu = (i) => R.gpus[P.gpu[i]].title;
  const name = (i) => gpu(i) + precision(i);
  const isFp4 = (text) => text.endsWith("fp4");
  const setup = (i) =>
    [P.num_gpus[i] && counted(P.num_gpus[i], "GPU"), P.global_batch_size[i] && `batch ${NUMBER.format(P.global_batch_size[i])}`]
      .filter(Boolean).join(", ") || "–";

  function amount(value) {
    const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
    return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  }

  function h(tag, attributes, ...children) {
    const element = ["svg", "rect"].includes(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else element.setAttribute(key, value);
    }
    element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
    return element;
  }

  const isWeb = (url) => /^https?:\/\//.test(url);
  const sourcePage = (i) => `${R.sources[P.source_key[i]].page}#${P.id[i]}`;
  const evidence = (i) => (isWeb(P.url[i]) ? P.url[i] : sourcePage(i));
  const evidenceLink = (i, text) => h("a", { class: "value", href: evidence(i), rel: "noreferrer" }, text);
  const swatch = (i) => h("span", { class: `swatch gpu-${GPU_NUMBER.get(P.gpu[i])}`, "aria-hidden": "true" });
  const SHORT = { [LOG]: "from the log", [FLOPS]: "FLOPs agree" };
  const shortMark = (i) => h("span", { class: `mark ${MARK_CLASS[P.mark[i]]}`, title: P.mark[i] }, SHORT[P.mark[i]] ?? P.mark[i]);
  const mark = (i) => [h("span", { class: `mark ${MARK_CLASS[P.mark[i]]}` }, P.mark[i]), P.reason[i] && `: ${P.reason[i]}`, note(P.note[i])];
  // The interval over the runs, where the shown value has one, and their number.
  const runs = (i, key, prefix = `${WORDS.level} CI `) => [key === "tokens" && P.low[i] && P.high[i] && `${prefix}${amount(P.low[i])}–${amount(P.high[i])}`,
    P.rates[i]?.length ? counted(P.rates[i].length, "run") : P.mark[i] !== LOG && "runs not stated"].filter(Boolean).join(", ");

  // A note, folded if it is long.
  function note(text) {
    if (!text || text.length <= WORDS.short) return text ? [" ", h("span", { class: "note" }, text)] : null;
    const start = text.slice(0, WORDS.short);
    const head = start.slice(0, ["; ", " "].map((each) => start.lastIndexOf(each)).find((place) => place > 0) ?? WORDS.short);
    return h("details", { class: "note" }, h("summary", {}, `${head} …`), text.slice(head.length).replace(/^[; ]+/, ""));
  }

  // ---- state: what the reader chose is in the address; the rest follows from the record -----------

  // A value is a key of the record, or begins with "*".
  const KEYS = {
    model: (i) => P.model[i], task: (i) => P.task[i], length: (i) => String(P.sequence_length[i] ?? ""), precision: (i) => P.precision[i],
    count: (i) => String(P.num_gpus[i] ?? ""), gpu: (i) => P.gpu[i], framework: (i) => P.framework[i], source: (i) => P.source_key[i],
    mark: (i) => P.mark[i],
  };
  const numeral = (key, unit) => (key ? NUMBER.format(key) + unit : "not stated");
  const TITLES = {
    model: (key) => R.models[key].title, task, length: (key) => numeral(key, " tokens"), precision: (key) => key.toUpperCase() || "not stated",
    count: (key) => numeral(key, ""), gpu: (key) => R.gpus[key].title, framework, source: (key) => R.sources[key].title,
    mark: (key) => key, metric: (key) => METRICS[key].unit,
  };
  const HIDDEN = ["length", "gpu", "framework", "source", "mark", "metric"];
  let given = {}; // by filter, q and sort
  let state = {}; // given, and defaults for the others
  let picks = [];
  let prices = {};
  let ignored = []; // what the address asks for and the record doesn't have
  const limits = { best: BEST, all: PAGE };

  function readAddress() {
    given = {};
    prices = {};
    picks = [];
    ignored = [];
    for (const [key, value] of new URLSearchParams(location.hash.slice(1))) {
      if (key.startsWith("usd.")) prices[key.slice(4)] = value;
      else if (key === "pick") {
        const found = value.split(".").map((id) => [id, NUMBER_OF_ID.get(id)]);
        picks = found.map(([, i]) => i).filter((i) => i !== undefined).slice(0, 2);
        ignored.push(...found.filter(([, i]) => i === undefined).map(([id]) => `pick=${id}`));
      } else if (key in TITLES || key === "q" || (key === "sort" && SORTS[value.replace(/^-/, "")])) given[key] = value;
      else ignored.push(`${key}=${value}`);
    }
    byId("q").value = given.q ?? "";
    byId("more").open ||= HIDDEN.some((key) => key in given);
  }

  function writeAddress(isStep) {
    const parameters = new URLSearchParams(given);
    if (picks.length) parameters.set("pick", picks.map((i) => P.id[i]).join("."));
    for (const [key, value] of Object.entries(prices)) if (value.trim()) parameters.set(`usd.${key}`, value);
    const address = `#${parameters}`;
    if (address !== (location.hash || "#")) history[isStep ? "pushState" : "replaceState"](null, "", address);
  }

  // ---- filters -----------------------------------------------------------------------------------

  const collator = new Intl.Collator("en", { numeric: true });

  function tally(values) {
    const found = new Map();
    for (const value of values) found.set(value, (found.get(value) ?? 0) + 1);
    return new Map([...found].sort((a, b) => b[1] - a[1]));
  }
  const first = (found) => found.keys().next().value;
  const MODELS = tally(P.model);

  // The page opens on the model that most GPUs pretrained.
  const FIRST_MODEL = first(tally([...new Set(ROWS.filter((i) => P.task[i] === "pretrain" && P.tokens_per_second_per_gpu[i])
    .map((i) => `${P.gpu[i]}\n${P.model[i]}`))].map((both) => both.split("\n")[1]))) ?? first(MODELS);

  const haystack = ROWS.map((i) =>
    [gpu(i), R.models[P.model[i]].title, P.model[i], task(P.task[i]), P.precision[i], software(i), P.publisher[i], P.source[i], P.note[i],
      P.date[i], P.mark[i], P.system?.[i]].join(" ").toLowerCase());

  // Fill a list and settle what is chosen in it: what is given if the list has it, else the default.
  function settle(key, values, special, fallback) {
    const options = [...values].map(([value, number]) => [value, `${TITLES[key](value)} (${NUMBER.format(number)})`]);
    if (key !== "metric") options.sort((a, b) => collator.compare(a[1], b[1]));
    if (!(values.has(given[key]) || special.some(([value]) => value === given[key])) || given[key] === fallback) delete given[key];
    state[key] = given[key] ?? fallback;
    byId(key).replaceChildren(...[...special, ...options].map(([value, text]) => h("option", { value }, text)));
    byId(key).value = state[key];
  }

  // Each list has what the filters before it leave; return the rows, and how many have another length.
  function filtered() {
    const any = [["*", "any"]];
    let rows = ROWS;
    const narrow = (key, special, fallback) => {
      const values = tally(rows.map(KEYS[key]));
      settle(key, values, special(values), fallback(values));
      const value = state[key];
      if (value === "*fp4") rows = rows.filter((i) => !P.precision[i].endsWith("fp4"));
      else if (value === "*valid") rows = rows.filter((i) => !isRejected(i));
      else if (value !== "*") rows = rows.filter((i) => KEYS[key](i) === value);
    };
    const anyFirst = () => "*";
    narrow("model", () => [["*", "all models"]], () => FIRST_MODEL);
    const isAll = state.model === "*";
    narrow("task", () => any, (values) => (isAll ? "*" : first(values)));
    const before = rows.length;
    narrow("length", () => any, (values) => (isAll || state.task === "*" ? "*" : first(values)));
    const elsewhere = before - rows.length;
    const hasFp4 = (values) => [...values.keys()].some((key) => key.endsWith("fp4"));
    narrow("precision", (values) => (hasFp4(values) ? [...any, ["*fp4", "any but FP4"]] : any), anyFirst);
    for (const key of ["count", "gpu", "framework", "source"]) narrow(key, () => any, anyFirst);
    narrow("mark", () => [["*valid", "all but rejected"], ["*", "any"]], () => "*valid");
    const words = (given.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length) rows = rows.filter((i) => words.every((word) => haystack[i].includes(word)));
    const metrics = new Map(Object.keys(METRICS).map((key) => [key, rows.filter((i) => valueOf(i, key) !== null).length]).filter(([, n]) => n));
    settle("metric", metrics, [], isAll && metrics.has("tflops") ? "tflops" : first(new Map([...metrics].sort((a, b) => b[1] - a[1]))) ?? "tokens");
    return { rows, elsewhere };
  }

  function valueOf(i, key) {
    const { field, scale } = METRICS[key];
    const value = P[field]?.[i];
    return value === null || value === undefined ? null : value / scale;
  }
  const speedOf = (i, key) => {
    const value = valueOf(i, key);
    return value === null ? null : METRICS[key].isTime ? 1 / value : value;
  };

  // ---- the answer and the fastest of each GPU ----------------------------------------------------------

  function fastest(rows) {
    const found = new Map();
    for (const i of rows) {
      const speed = isRejected(i) || !P.gpu[i] ? null : speedOf(i, state.metric);
      if (speed !== null && !(found.has(P.gpu[i]) && speedOf(found.get(P.gpu[i]), state.metric) >= speed)) found.set(P.gpu[i], i);
    }
    return [...found.values()].sort((a, b) => speedOf(b, state.metric) - speedOf(a, state.metric));
  }

  const sentence = (i) => [
    h("strong", {}, name(i)), ` with `, evidenceLink(i, `${amount(valueOf(i, state.metric))} ${METRICS[state.metric].unit}`), " ",
    h("span", { class: "unit" }, [setup(i), software(i), P.date[i].slice(0, 7) || "undated", P.publisher[i], SHORT[P.mark[i]] ?? P.mark[i], runs(i)]
      .filter((text) => text && text !== "–").join(" · ")),
  ];

  function answer(rows, best) {
    const none = !rows.length ? "No result matches these filters." : rows.every(isRejected) ? "All matching results were rejected."
      : "No matching result states its GPU.";
    if (!best.length) return [h("p", {}, none)];
    const what = state.model === "*" ? "Fastest by TFLOP/s over all models" : "Fastest";
    const lines = [h("p", { class: "headline" }, `${what}: `, sentence(best[0]))];
    if (P.precision[best[0]].endsWith("fp4")) {
      const [without] = fastest(rows.filter((i) => !P.precision[i].endsWith("fp4")));
      if (without !== undefined) lines.push(h("p", {}, "Without FP4: ", sentence(without)));
    }
    const vendor = (i) => R.gpus[P.gpu[i]].vendor;
    for (const each of ["AMD", "NVIDIA"]) {
      const of = best.find((i) => vendor(i) === each);
      if (of !== undefined && vendor(best[0]) && vendor(best[0]) !== each) lines.push(h("p", {}, `Fastest ${each} GPU: `, sentence(of)));
    }
    return lines;
  }

  function elsewhereNote(number, rows) {
    const parts = [`${counted(rows.length, "result")} from ${counted(new Set(rows.map(KEYS.gpu)).size, "GPU")}, newest ${
      rows.reduce((newest, i) => (P.date[i] > newest ? P.date[i] : newest), "") || "undated"}.`];
    if (state.length && state.length !== "*") parts.push(` Sequences of ${TITLES.length(state.length)}.`);
    if (number) parts.push(` ${counted(number, "result")} with other sequence lengths not shown (work per token differs). `,
      h("button", { type: "button", onclick: () => choose("length", "*") }, "Show all lengths"));
    return parts;
  }

  const box = (i) =>
    h("input", { type: "checkbox", "data-pick": P.id[i], 
      "aria-label": `Compare ${name(i)}, ${software(i) || P.publisher[i]}, ${P.date[i] || "undated"}`,
      onchange: (event) => pick(i, event.target.checked) });
  const td = (label, kind, ...children) => h("td", { "data-label": label, class: kind }, ...children);
  const gpuCell = (i) => [swatch(i), h("a", { href: R.gpus[P.gpu[i]].page }, gpu(i)), precision(i)];
  const sourceCell = (i) => h("a", { href: sourcePage(i) }, P.publisher[i] || R.sources[P.source_key[i]].title);
  const small = (text, kind = "") => text && [" ", h("span", { class: `note ${kind}` }, text)];

  const bar = (i, share) => h("svg", { class: `bar gpu-${GPU_NUMBER.get(P.gpu[i])}`, "aria-hidden": "true" },
    h("rect", { width: `${(100 * share).toFixed(1)}%`, height: "100%" }));

  function bestRow(i, longest) {
    const key = P.gpu[i];
    const input = h("input", { "data-price": key, inputmode: "decimal", size: "8", autocomplete: "off", placeholder: "price",
      "aria-label": `Price of ${gpu(i)}, USD per GPU-hour, a number or a range such as 2.20:3.10`, oninput: (event) => {
        prices[key] = event.target.value;
        writeAddress(false);
        costs();
      } });
    input.value = prices[key] ?? "";
    const value = valueOf(i, state.metric);
    return h("tr", {},
      td("Pick", "pick", box(i)), td("GPU", "", gpuCell(i)),
      td("Speed", "", h("div", { class: "speed" }, evidenceLink(i, amount(value)), bar(i, value / longest)), small(runs(i, state.metric, ""), "whole")),
      td("GPUs, global batch", "", setup(i)), td("Software", "", software(i) || "not stated"), td("When", "", P.date[i].slice(0, 7) || "undated"),
      td("Source", "", sourceCell(i)), td("Checked", "", shortMark(i), note(P.note[i])), td("USD/GPU-hour", "cost", input),
      td("USD/10⁹ tokens", "cost right", h("output", { "data-cost": String(i) }, "–")));
  }

  function renderBest(best) {
    const longest = Math.max(...best.map((i) => valueOf(i, state.metric)));
    byId("best-unit").textContent = METRICS[state.metric].unit + (state.metric === "tokens" ? `, ${WORDS.level} CI` : "");
    byId("best").hidden = !best.length;
    byId("best").classList.toggle("no-cost", state.metric !== "tokens");
    byId("best").querySelector("tbody").replaceChildren(...best.slice(0, limits.best).map((i) => bestRow(i, longest)));
    more("best", best.length - limits.best, "GPU");
    costs();
  }

  function more(part, left, noun, most = left) {
    byId(`${part}-more`).hidden = left <= 0;
    byId(`${part}-more`).textContent = `Show ${counted(Math.min(left, most), `more ${noun}`)}`;
  }

  // ---- prices: numbers or ranges, as in the report of a comparison ---------------------------------------

  function priceOf(text) {
    const parts = (text ?? "").trim().split(":").map((part) => part.trim().replace(/^\$/, ""));
    if (parts.length > 2 || parts.some((part) => !/^\d*\.?\d+(e[+-]?\d+)?$/i.test(part))) return null;
    const [low, high] = [Number(parts[0]), Number(parts[parts.length - 1])];
    return low > 0 && high >= low && Number.isFinite(high) ? [low, high] : null;
  }
  // USD per 10⁹ tokens, of the lowest and the highest price; null without a price or a speed.
  function costOf(i) {
    const [price, rate] = [priceOf(prices[P.gpu[i]]), P.tokens_per_second_per_gpu[i]];
    return price && rate ? price.map((usd) => (usd * 1e9) / 3600 / rate) : null;
  }
  const money = (value) => (value >= 1000 ? amount(value) : value >= 10 ? value.toFixed(1) : value.toPrecision(3));
  const span = (values, form) => [...new Set(values.map(form))].join("–");

  function costs() {
    for (const input of document.querySelectorAll("[data-price]")) {
      input.setAttribute("aria-invalid", String(Boolean(input.value.trim()) && !priceOf(input.value)));
    }
    byId("best").classList.toggle("priced", Object.values(prices).some(priceOf));
    for (const output of document.querySelectorAll("[data-cost]")) {
      const cost = costOf(Number(output.dataset.cost));
      output.textContent = cost ? span(cost, money) : "–";
    }
    renderComparison();
  }

  // ---- all results ---------------------------------------------------------------------------------------

  const SORTS = {
    gpu: name, model: (i) => R.models[P.model[i]].title, num_gpus: (i) => P.num_gpus[i], length: (i) => P.sequence_length[i], software,
    date: (i) => P.date[i] || null, source: (i) => R.sources[P.source_key[i]].title, mark: (i) => WORDS.marks.indexOf(P.mark[i]),
    value: (i) => speedOf(i, state.metric),
  };

  function sorted(rows) {
    const order = given.sort ?? "-value";
    const by = SORTS[order.replace(/^-/, "")] ? order : "-value";
    const key = SORTS[by.replace(/^-/, "")];
    const sign = by.startsWith("-") ? -1 : 1;
    for (const head of document.querySelectorAll("#all th[data-sort]")) {
      if (head.dataset.sort === by.replace(/^-/, "")) head.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    const keyed = rows.map((i) => [key(i), i]);
    const compare = (a, b) => (typeof a === "string" ? collator.compare(a, b) : a - b);
    keyed.sort(([a, i], [b, j]) => (a === null || a === undefined) - (b === null || b === undefined) || sign * compare(a ?? 0, b ?? 0) || i - j);
    return keyed.map(([, i]) => i);
  }

  // The value in the chosen metric, else in the first that the row has.
  function valueCell(i) {
    const key = [state.metric, ...Object.keys(METRICS)].find((each) => valueOf(i, each) !== null);
    return key ? [evidenceLink(i, amount(valueOf(i, key))), " ", h("span", { class: "unit" }, METRICS[key].unit), small(runs(i, key), "whole")]
      : evidenceLink(i, "no speed");
  }

  function row(i) {
    return h("tr", { class: isRejected(i) ? "rejected" : "" },
      td("Pick", "pick", box(i)), td("GPU", "", gpuCell(i)), td("Speed", "", valueCell(i)),
      td("Model", "", h("a", { href: R.models[P.model[i]].page }, R.models[P.model[i]].title)), td("GPUs, global batch", "", setup(i), note(P.configuration?.[i])),
      td("Work", "", `${task(P.task[i])}, ${tokens(P.sequence_length[i])}`, P.work?.[i] && `, ${P.work[i]}`), td("Software", "", software(i) || "not stated"),
      td("When", "", P.date[i] || "undated"), td("Source", "", sourceCell(i), small(P.system?.[i])), td("Checked, note", "", mark(i)));
  }

  function renderAll(rows) {
    byId("all").querySelector("tbody").replaceChildren(...sorted(rows).slice(0, limits.all).map(row));
    more("all", rows.length - limits.all, "result", 4 * PAGE);
  }

  // ---- chart -----------------------------------------------------------------------------------------------

  const DARK = matchMedia("screen and (prefers-color-scheme: dark)");
  const chart = window.makeChart(byId("chart"), pointText, showPoint);

  // A date of a month or a year alone is in its middle.
  function time(date) {
    const [year, month, day] = date.split("-").map(Number);
    return Date.UTC(year, (month || 7) - 1, day || (month ? 15 : 1)) / 1000;
  }

  function renderChart(rows) {
    const dated = rows.filter((i) => /^\d{4}/.test(P.date[i]) && valueOf(i, state.metric) !== null);
    const keys = fastest(dated).map(KEYS.gpu);
    const color = (key) => (DARK.matches && R.gpus[key].dark) || R.gpus[key].color;
    const { unit, isTime } = METRICS[state.metric];
    byId("over-time").hidden = !dated.length;
    byId("point").replaceChildren();
    chart.draw({
      isTime,
      lines: keys.map((key) => ({ key, color: color(key), repeat: WORDS.repeats[GPU_NUMBER.get(key)] })),
      points: dated.map((i) => ({ i, x: time(P.date[i]), y: valueOf(i, state.metric), key: P.gpu[i], color: color(P.gpu[i]),
        kind: MARK_CLASS[P.mark[i]], repeat: WORDS.repeats[GPU_NUMBER.get(P.gpu[i])] })),
    });
    const undated = rows.filter((i) => !P.date[i]).length;
    byId("chart-note").textContent = `${unit}. Lines: best result so far per GPU. Filled points: recomputed from logs; hollow: as published. ` +
      "Select a point for its evidence; drag to zoom, double-click to show all." +
      (undated ? ` ${counted(undated, "undated result")} ${undated === 1 ? "appears" : "appear"} only in the table.` : "");
    byId("chart").setAttribute("aria-label",
      `${unit} over time, ${counted(dated.length, "result")} from ${counted(keys.length, "GPU")}. The table "All results" has the values.`);
    byId("legend").replaceChildren(...keys.map((key) =>
      h("span", { class: `gpu-${GPU_NUMBER.get(key)}` }, h("span", { class: "swatch", "aria-hidden": "true" }), R.gpus[key].title)));
  }

  function pointText(i) {
    const value = `${amount(valueOf(i, state.metric))} ${METRICS[state.metric].unit}`;
    return `${name(i)}: ${value}, ${setup(i)}, ${software(i) || P.publisher[i]}, ${P.date[i]}`;
  }

  function showPoint(i) {
    byId("point").replaceChildren(h("p", {}, swatch(i), sentence(i), ". ", mark(i), " ", evidenceLink(i, "Evidence"), " · ",
      h("button", { type: "button", onclick: () => pick(i, true) }, "Compare this result")));
  }

  // ---- two results -------------------------------------------------------------------------------------------

  function pick(i, isPicked) {
    const others = picks.filter((each) => each !== i);
    setPicks(isPicked ? [...others, i].slice(-2) : others);
  }

  function setPicks(rows) {
    picks = rows;
    writeAddress(true);
    renderComparison();
  }

  const unknown = "not stated";
  const SETTINGS = [
    ["GPU", gpu], ["Model", (i) => R.models[P.model[i]].title], ["Task", (i) => task(P.task[i])],
    ["Sequence length", (i) => TITLES.length(KEYS.length(i))], ["Kind", (i) => P.work?.[i] || "ordinary"], ["Precision", (i) => TITLES.precision(P.precision[i])],
    ["Number of GPUs", (i) => TITLES.count(KEYS.count(i))], ["Global batch", (i) => numeral(P.global_batch_size[i], " sequences")],
    ["Framework", (i) => framework(P.framework[i])], ["Step timer", (i) => P.clock?.[i] || unknown], ["Configuration", (i) => P.configuration?.[i] || unknown],
    ["Software", (i) => software(i) || unknown], ["System", (i) => P.system?.[i] || unknown],
    ["Target", (i) => P.target?.[i] || unknown], ["Publisher", (i) => P.publisher[i]], ["When", (i) => P.date[i] || unknown],
    ["Checked", (i) => P.mark[i]],
    ["Note", (i) => P.note[i] || unknown],
  ];
  // Digits of a ratio and its bounds: as many as the interval's width, or a difference of some percent, needs.
  const digitsOf = (ratio, width) => (ratio >= 10 ? 1 : width < 0.1 ? 3 : 2);

  // What differs: [name, first, second], and what one of the two doesn't state.
  function differences(a, b, settings) {
    const found = settings.map(([title, text]) => [title, text(a), text(b)]).filter(([, x, y]) => x !== y);
    const isKnown = ([, x, y]) => x !== unknown && y !== unknown;
    return { certain: found.filter(isKnown), unknown: found.filter((each) => !isKnown(each)) };
  }
  const lower = (title) => title.toLowerCase().replace("gpu", "GPU");
  const names = (found) => found.map(([title]) => lower(title)).join(", ");
  const WORK = SETTINGS.slice(1, 5);
  const CONDITIONS = SETTINGS.slice(6, 10); // number of GPUs, batch, framework, step timer: what makes a ratio more than one of GPUs

  const KIND = ["gpu", "model", "task", "sequence_length", "work", "precision"];
  const isAlike = (i, j, fields) => fields.every((field) => P[field][i] === P[field][j]);

  // The fastest results like two others that differ in GPU and precision alone; undefined if the record has none.
  function likeForLike(a, b, key) {
    const [first, second] = [a, b].map((one) => {
      const found = new Map();
      const rows = ROWS.filter((i) => !isRejected(i) && P.num_gpus[i] && P.global_batch_size[i] && valueOf(i, key) !== null && isAlike(i, one, KIND));
      for (const i of rows.sort((x, y) => speedOf(y, key) - speedOf(x, key))) {
        const conditions = CONDITIONS.map(([, text]) => text(i)).join("; ");
        if (!found.has(conditions)) found.set(conditions, i);
      }
      return found;
    });
    const pairs = [...first].filter(([conditions, i]) => second.has(conditions) && second.get(conditions) !== i).map(([conditions, i]) => [i, second.get(conditions)]);
    return pairs.find(([x, y]) => PAIRS.has(`${x} ${y}`)) ?? pairs[0];
  }

  const percent = (ratio) => `${(100 * Math.abs(ratio - 1)).toFixed(Math.abs(ratio - 1) < 0.1 ? 1 : 0)}%`;

  // How much slower and faster other systems with the same GPU are, by the same source.
  function spread(i, key) {
    const ratios = ROWS.filter((j) => !isRejected(j) && valueOf(j, key) !== null && isAlike(i, j, [...KIND, "num_gpus", "clock", "source_key"])).map((j) => speedOf(j, key) / speedOf(i, key));
    const [low, high] = [Math.min(1, ...ratios), Math.max(1, ...ratios)];
    const parts = [low < 0.9995 && `up to ${percent(low)} slower`, high > 1.0005 && `up to ${percent(high)} faster`].filter(Boolean);
    return parts.length ? `${name(i)} ${parts.join(" and ")}` : null;
  }

  // The headline, what is certain, what makes the two unlike, and the pair that is alike.
  function verdict(a, b) {
    const wrong = [a, b].find(isRejected);
    if (wrong !== undefined) return { head: `Not compared: ${name(wrong)} was rejected (${P.mark[wrong]}).`, lines: [P.reason[wrong]] };
    const work = differences(a, b, WORK);
    if (work.certain.length) return { head: `Different work: ${work.certain.map(([title, x, y]) => `${lower(title)} (${x} and ${y})`).join(", ")}.`,
      lines: ["The values don't say which system is faster."] };
    const key = [state.metric, ...Object.keys(METRICS)].find((each) => valueOf(a, each) !== null && valueOf(b, each) !== null);
    if (!key) return { head: "Not compared: the two results have no metric in common.", lines: [] };
    const [fast, slow] = speedOf(a, key) >= speedOf(b, key) ? [a, b] : [b, a];
    const compared = ["tokens", "samples", "target"].find((each) => valueOf(fast, each) !== null);
    const pair = key === compared ? PAIRS.get(`${fast} ${slow}`) : undefined;
    const ratio = pair?.ratio ?? speedOf(fast, key) / speedOf(slow, key);
    const values = `${amount(valueOf(fast, key))} and ${amount(valueOf(slow, key))} ${METRICS[key].unit}`;
    const size = ratio >= 2 ? `${ratio.toFixed(1)}× as fast as` : `${percent(ratio)} faster than`;
    const per = METRICS[key].isTime ? "to the target" : "per GPU";
    let head = ratio < 1.001 ? `${name(fast)} and ${name(slow)} have the same speed.`
      : `${name(fast)} is ${size.replace(/ (than|as)$/, ` ${per} $1`)} ${name(slow)}.`;
    if (pair && pair.low <= 1) head = `No significant difference between ${name(fast)} and ${name(slow)}.`;
    const why = [a, b].every((i) => P.rates[i]?.length > 1) ? "it is computed for pairs with the same number of GPUs and step timer"
      : "run-to-run variation is unknown (single run or runs not stated)";
    const digits = digitsOf(ratio, pair ? pair.high - pair.low : ratio - 1);
    const [text, low, high] = [ratio, pair?.low, pair?.high].map((each) => each?.toFixed(digits));
    const others = [fast, slow].map((i) => spread(i, key)).filter(Boolean).join("; ");
    const lines = pair ? [`${text}×, ${WORDS.level} CI ${low}–${high}: ${values}. The interval covers run-to-run variation of these two systems` +
      `${others ? `; other results of the same source: ${others}` : ""}.`] : [`${text}×: ${values}. No confidence interval; ${why}.`];
    if (work.unknown.length) lines.push(`Possibly different work: ${names(work.unknown)} not stated for both.`);
    const [short, long] = [fast, slow].sort((x, y) => valueOf(x, "target") - valueOf(y, "target"));
    if (key !== "target" && P.target[fast] && isAlike(fast, slow, ["target", "num_gpus"]) && valueOf(short, "target") && valueOf(long, "target")) {
      lines.push(`Time to the same target: ${(valueOf(long, "target") / valueOf(short, "target")).toFixed(2)}× as fast with ${name(short)} (${
        amount(valueOf(short, "target"))} and ${amount(valueOf(long, "target"))} min).`);
    }
    const { certain, unknown: oneSided } = differences(fast, slow, CONDITIONS);
    const unlike = [...certain, ...oneSided.filter(([title]) => title === "Step timer")];
    return { head, lines, alike: unlike.length ? likeForLike(fast, slow, key) : null,
      caution: unlike.length ? `Not like for like: ${unlike.map(([title, x, y]) => `${lower(title)} ${x} vs ${y}`).join("; ").replaceAll(" sequences", "")}.` : null };
  }

  function costLine(a, b) {
    const [one, two] = [costOf(a), costOf(b)];
    if (!one || !two || differences(a, b, WORK).certain.length) return null;
    const price = (i) => span(priceOf(prices[P.gpu[i]]), (usd) => `$${usd.toFixed(2)}`);
    const text = (i, cost) => `${name(i)} at ${price(i)} per GPU-hour: ${span(cost, money)} USD per 10⁹ tokens`;
    const [cheap, dear] = one[1] < two[0] ? [[a, one], [b, two]] : two[1] < one[0] ? [[b, two], [a, one]] : [null, null];
    const saving = cheap && span([1 - cheap[1][1] / dear[1][0], 1 - cheap[1][0] / dear[1][1]], (share) => (100 * share).toFixed(0));
    return `${text(a, one)}. ${text(b, two)}.${cheap ? ` ${name(cheap[0])} is ${saving}% cheaper per token.` : ""}`;
  }

  // The command that compares the evidence: logs with each other, tables each by itself; a file of one's own as it is.
  const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);
  function command(rows) {
    const lines = [];
    const paths = rows.map((i) => {
      const found = /^([^/\s]+)\/([^/\s]+)\/(.+)@([0-9a-f]{7,40})(?::[^:]*)?$/.exec(P.source[i]);
      if (!found || !isWeb(P.url[i])) return P.source[i];
      const [, owner, repository, path, commit] = found;
      const clone = `git clone --filter=blob:none --no-checkout https://github.com/${owner}/${repository}`;
      if (!lines.includes(clone)) lines.push(clone);
      lines.push(`git -C ${quoted(repository)} checkout ${commit} -- ${quoted(path)}`);
      return `${repository}/${path}`;
    });
    const isLog = (i) => P.mark[i] === LOG || !isWeb(P.url[i]);
    const logs = paths.filter((_, n) => isLog(rows[n]));
    const tables = [...new Set(paths.filter((_, n) => !isLog(rows[n])))];
    if (logs.length) lines.push(`python3 -m tprimat compare ${[...new Set(logs)].map(quoted).join(" ")}`);
    if (tables.length) lines.push(`python3 -m tprimat audit ${tables.map(quoted).join(" ")}`);
    const note = logs.length === 2 ? "To compare both logs:"
      : logs.length ? "Only one result has a log. This compares it with published results and audits the other's table:"
      : "No log is published, so nothing can be recomputed. This checks the tables:";
    return [note, [...new Set(lines)].join("\n")];
  }

  function renderComparison() {
    for (const each of document.querySelectorAll("[data-pick]")) each.checked = picks.includes(NUMBER_OF_ID.get(each.dataset.pick));
    byId("compare").hidden = !picks.length;
    const details = byId("comparison-details");
    const wasOpen = details.querySelector("details")?.open ?? false;
    details.replaceChildren();
    if (!picks.length) return byId("comparison").replaceChildren();
    const clear = h("button", { type: "button", class: "clear", onclick: () => setPicks([]) }, "Clear");
    const [a, b] = picks;
    if (b === undefined) {
      const text = `${name(a)}, ${software(a) || P.publisher[a]}: pick a second result to compare.`;
      return byId("comparison").replaceChildren(h("p", {}, text), clear);
    }
    const { head, lines: certain, caution, alike } = verdict(a, b);
    const offer = alike && h("button", { type: "button", onclick: () => setPicks(alike) },
      `Compare like for like: ${alike.map((i) => `${name(i)}, ${P.publisher[i]}`).join(" and ")}; ${setup(alike[0])}`);
    byId("comparison").replaceChildren(h("p", { class: "headline" }, head), ...(caution ? [h("p", { class: "caution" }, caution, " ", offer ?? "")] : []),
      ...[...certain, costLine(a, b)].filter(Boolean).map((text) => h("p", {}, text)));
    const { certain: differing, unknown: oneSided } = differences(a, b, SETTINGS);
    const [about, lines] = command(picks);
    const heads = ["Setting", "First", "Second"].map((text) => h("th", { scope: "col" }, text));
    const table = h("table", {}, h("thead", {}, h("tr", {}, heads)),
      h("tbody", {}, [...differing, ...oneSided].map(([title, x, y]) => h("tr", {}, h("th", { scope: "row" }, title), h("td", {}, x), h("td", {}, y))),
        h("tr", {}, h("th", { scope: "row" }, "Evidence"), ...picks.map((i) => h("td", {}, evidenceLink(i, P.source[i]), P.mark[i] === LOG && isWeb(P.url[i]) ? " (files result_*.txt)" : "")))));
    const copied = (event) => navigator.clipboard.writeText(lines).then(() => { event.target.textContent = "Copied"; });
    const copy = navigator.clipboard && h("button", { type: "button", onclick: copied }, "Copy");
    const fold = h("details", {}, h("summary", {}, `Differences: ${names(differing) || "none that both state"} (show values and command)`),
      oneSided.length ? h("p", {}, `Stated for one only: ${names(oneSided)}.`) : null,
      h("div", { class: "wide", tabindex: "0", role: "group", "aria-label": "Settings that differ" }, table),
      h("p", {}, about), h("pre", { tabindex: "0" }, lines), copy);
    fold.open = wasOpen;
    details.replaceChildren(fold, clear);
  }

  // ---- all together ----------------------------------------------------------------------------------------------

  function render() {
    const asked = { ...given };
    const { rows, elsewhere } = filtered();
    ignored.push(...Object.keys(asked).filter((key) => key in state && state[key] !== asked[key]).map((key) => `${key}=${asked[key]}`));
    byId("ignored").textContent = ignored.length ? `No such result in the record, so ignored: ${ignored.join(", ")}.` : "";
    const best = fastest(rows);
    byId("more-set").textContent = ((number) => (number ? ` (${number} set)` : ""))(HIDDEN.filter((key) => key in given).length);
    byId("answer").replaceChildren(...answer(rows, best));
    byId("elsewhere").replaceChildren(...elsewhereNote(elsewhere, rows));
    renderBest(best);
    renderChart(rows);
    renderAll(rows);
    renderComparison();
  }

  function choose(key, value, isStep = true) {
    given[key] = value;
    ignored = [];
    Object.assign(limits, { best: BEST, all: PAGE });
    render();
    writeAddress(isStep);
  }

  const form = byId("filters");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", (event) => event.target.tagName === "SELECT" && choose(event.target.id, event.target.value));
  byId("q").addEventListener("input", (event) => {
    if (!event.target.value) delete given.q;
    else given.q = event.target.value;
    render();
    writeAddress(false);
  });
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    [given, ignored] = [{}, []];
    byId("q").value = "";
    render();
    writeAddress(true);
  });
  for (const head of document.querySelectorAll("#all th[data-sort]")) {
    head.firstElementChild.addEventListener("click", () => {
      const key = head.dataset.sort;
      const descendsFirst = key === "value" || key === "date";
      const now = head.getAttribute("aria-sort");
      given.sort = (now ? now === "ascending" : descendsFirst) ? `-${key}` : key;
      if (given.sort === "-value") delete given.sort;
      renderAll(filtered().rows);
      renderComparison();
      writeAddress(false);
    });
  }
  for (const [part, step] of [["best", Infinity], ["all", 4 * PAGE]]) {
    byId(`${part}-more`).addEventListener("click", () => {
      limits[part] += step;
      render();
    });
  }
  // Where its link leads is no filter.
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("main").focus();
  });
  const open = () => (readAddress(), render());
  addEventListener("popstate", open);
  DARK.addEventListener("change", render);
  byId("app").hidden = false;
  open();
  document.documentElement.dataset.ready = "true";
})();
