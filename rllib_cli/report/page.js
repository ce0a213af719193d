"use strict";
// Draws what `contents` in contents.py describes. State is what the user chose; every change redraws.

const COLOURS = ["#1f77b4", "#d95f02", "#2ca02c", "#c2185b", "#7b61c9", "#8c6d1f", "#17a2b8", "#6b7280", "#a3b300", "#e0457b"];
const $ = (id) => document.getElementById(id);
const state = { metric: 0, seedsOff: new Set(), groupsOff: new Set(), chosen: null, heatSeen: false };
let data;

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function format(value) {
  if (value === null || value === undefined) return "";
  if (value && Math.abs(value) < 1e-4) return Number(value.toPrecision(4)).toExponential();
  return value.toLocaleString("en", { maximumSignificantDigits: 4 });
}

const metricName = () => data.metrics[state.metric].label;
const seedOf = (trial) => String(trial.seed ?? "none");
const colour = (group) => COLOURS[group % COLOURS.length];
const dash = (group) => ["solid", "dash", "dot", "dashdot"][Math.floor(group / COLOURS.length) % 4];

function groupLabel(group) {
  const runs = new Set(data.groups.map((other) => other.run)).size > 1;
  const settings = Object.entries(group.values).map(([key, value]) => `${key.split(".").pop()} = ${value}`);
  return [...(runs || !settings.length ? [group.run || "run"] : []), ...settings].join(", ");
}

function environments() {
  return [...new Set(data.groups.map((group) => group.env))];
}

function isShown(trial) {
  return !state.seedsOff.has(seedOf(trial)) && !state.groupsOff.has(trial.group) && trial.curves[state.metric];
}

// Statistics ------------------------------------------------------------------------------------

function finalMean([steps, values]) {
  const start = steps[steps.length - 1] * 0.9;
  const last = values.filter((_, index) => steps[index] >= start);
  return last.reduce((sum, value) => sum + value, 0) / last.length;
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

function standardError(values) {
  if (values.length < 2) return 0;
  const centre = mean(values);
  return Math.sqrt(values.reduce((sum, v) => sum + (v - centre) ** 2, 0) / (values.length - 1) / values.length);
}

function interpolate([steps, values], at) {
  let next = steps.findIndex((step) => step >= at);
  if (next < 0) next = steps.length - 1;
  if (next === 0 || steps[next] === at) return values[next];
  const share = (at - steps[next - 1]) / (steps[next] - steps[next - 1]);
  return values[next - 1] + share * (values[next] - values[next - 1]);
}

function meanCurve(curves) {
  const start = Math.max(...curves.map(([steps]) => steps[0]));
  const end = Math.min(...curves.map(([steps]) => steps[steps.length - 1]));
  const grid = [...new Set(curves.flatMap(([steps]) => steps))].filter((x) => x >= start && x <= end).sort((a, b) => a - b);
  return [grid, grid.map((x) => mean(curves.map((curve) => interpolate(curve, x))))];
}

// Pictures --------------------------------------------------------------------------------------

function layout(title, extra = {}) {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink"), line = style.getPropertyValue("--line");
  const axis = { gridcolor: line, zerolinecolor: line };
  return {
    title: { text: title, font: { size: 14 } },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: ink, family: "system-ui, sans-serif", size: 12 },
    margin: { l: 64, r: 12, t: 34, b: 40 }, height: 380, showlegend: false, hovermode: "closest",
    xaxis: { ...axis, title: { text: "environment steps" }, ...(extra.xaxis || {}) },
    yaxis: { ...axis, exponentformat: "power", title: { text: metricName() }, ...(extra.yaxis || {}) },
  };
}

const OPTIONS = {
  responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d"],
  displayModeBar: matchMedia("(min-width: 700px)").matches ? "hover" : false,
};

function draw(host, key, traces, shape) {
  let target = host.querySelector(`[data-panel="${CSS.escape(key)}"]`);
  if (!target) host.append((target = element("div", { "data-panel": key, class: "plot" })));
  Plotly.react(target, traces, shape, OPTIONS);
}

function drawCurves() {
  const single = $("single").checked, means = $("mean").checked;
  for (const env of environments()) {
    const traces = [];
    data.groups.forEach((group, number) => {
      if (group.env !== env) return;
      const members = data.trials.filter((trial) => trial.group === number && isShown(trial));
      if (!members.length) return;
      const label = groupLabel(group);
      const alone = members.length === 1 || !means;
      if (single || !means) {
        for (const trial of members) {
          const chosen = state.chosen === trial.name;
          traces.push({
            x: trial.curves[state.metric][0], y: trial.curves[state.metric][1], mode: "lines",
            line: { color: colour(number), width: chosen ? 4 : alone ? 2 : 1, dash: dash(number) },
            opacity: state.chosen && !chosen ? 0.25 : alone ? 1 : 0.45,
            name: `${label}, seed ${seedOf(trial)}`, meta: trial.name,
            hovertemplate: "%{x:,} steps: %{y:.5g}<extra>%{fullData.name}</extra>",
          });
        }
      }
      if (means && (members.length > 1 || !single)) {
        const [x, y] = meanCurve(members.map((trial) => trial.curves[state.metric]));
        traces.push({
          x, y, mode: "lines", line: { color: colour(number), width: 3, dash: dash(number) },
          opacity: state.chosen ? 0.4 : 1, name: `${label}, mean of ${members.length}`,
          hovertemplate: "%{x:,} steps: %{y:.5g}<extra>%{fullData.name}</extra>",
        });
      }
    });
    draw($("plots"), env, traces, layout(env));
  }
}

const numericKeys = () => data.keys.filter((key) => {
  const values = new Set(data.groups.map((group) => group.values[key]));
  return values.size > 1 && [...values].every((value) => typeof value === "number");
});

function drawHeat() {
  const across = $("across").value, up = $("up").value;
  if (!state.heatSeen || $("heat").hidden || across === up) return;
  const axis = (key) => [...new Set(data.groups.map((group) => group.values[key]))].sort((a, b) => a - b);
  const xs = axis(across), ys = axis(up);
  for (const env of environments()) {
    const cells = ys.map((y) => xs.map((x) => {
      const finals = data.trials.filter((trial) => {
        const { values, env: own } = data.groups[trial.group];
        return own === env && values[across] === x && values[up] === y && isShown(trial);
      }).map((trial) => finalMean(trial.curves[state.metric]));
      return finals.length ? mean(finals) : null;
    }));
    const category = (key) => ({ type: "category", title: { text: key }, automargin: true });
    draw($("heat-plots"), env, [{
      type: "heatmap", x: xs.map(String), y: ys.map(String), z: cells, colorscale: "Viridis",
      text: cells.map((row) => row.map(format)), texttemplate: "%{text}",
      hovertemplate: `${across} %{x}, ${up} %{y}: %{z:.5g}<extra></extra>`,
    }], layout(`${env} ${metricName()}`, { xaxis: category(across), yaxis: category(up) }));
  }
}

// Tables ----------------------------------------------------------------------------------------

function table(target, titles, rows) {
  const cell = (tag, value) => {
    const number = typeof value === "number" || value?.number;
    return element(tag, number ? { class: "number" } : {}, value?.number ?? (typeof value === "number" ? format(value) : value));
  };
  const body = element("tbody");
  for (const { cells, ...attributes } of rows) body.append(element("tr", attributes, ...cells.map((value) => cell("td", value))));
  target.replaceChildren(element("thead", {}, element("tr", {}, ...titles.map((title) => cell("th", title)))), body);
}

const right = (text) => ({ number: text });

function showFinal() {
  const rows = [];
  data.groups.forEach((group, number) => {
    const members = data.trials.filter((trial) => trial.group === number && trial.curves[state.metric]);
    if (!members.length) return;
    const finals = members.map((trial) => finalMean(trial.curves[state.metric]));
    const best = Math.max(...members.flatMap((trial) => trial.curves[state.metric][1]));
    const interval = group.intervals[state.metric];
    rows.push({ order: mean(finals), env: group.env, cells: [
      group.env, groupLabel(group), members.length,
      right(interval ? `${format(interval[0])} [${format(interval[1])}, ${format(interval[2])}]` : ""),
      right(format(mean(finals)) + (finals.length > 1 ? ` ± ${format(standardError(finals))}` : "")), best,
      members.reduce((sum, trial) => sum + trial.hours, 0),
    ] });
  });
  rows.sort((a, b) => a.env.localeCompare(b.env) || b.order - a.order);
  table($("final-table"), ["environment", "setting", right("seeds"), right("IQM"), right("mean ± s.e."), right("best"), right("hours")],
    rows.map(({ cells }) => ({ cells })));
}

function showTrials() {
  const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [];
  for (const trial of data.trials) {
    const group = data.groups[trial.group];
    const curve = trial.curves[state.metric];
    const text = [trial.name, trial.experiment, group.run, group.env, `seed=${seedOf(trial)}`, trial.status, trial.digest,
      ...Object.entries(trial.settings).map(([key, value]) => `${key}=${value}`)].join(" ").toLowerCase();
    if (!words.every((word) => text.includes(word))) continue;
    rows.push({
      class: state.chosen === trial.name ? "chosen" : "", "data-trial": trial.name, tabindex: "0",
      cells: [trial.name, group.run, group.env, ...data.keys.map((key) => trial.settings[key]), right(seedOf(trial)), trial.status,
        right(trial.steps.toLocaleString("en")), curve ? curve[1][curve[1].length - 1] : "", trial.hours, trial.digest],
    });
  }
  $("found").textContent = `${rows.length} of ${data.trials.length}`;
  table($("trial-table"), ["trial", "algorithm", "environment", ...data.keys, right("seed"), "status", right("steps"), right(`last ${metricName()}`), right("hours"), "digest of the weights"], rows);
}

function showTrial() {
  const trial = data.trials.find((one) => one.name === state.chosen);
  $("trial").replaceChildren(...(trial ? [element("h3", {}, trial.name), ...Object.entries(trial.commands).map(command)] : []));
}

function command([name, text]) {
  return element("div", {}, element("span", { class: "quiet" }, name), element("code", {}, text));
}

function choose(name) {
  state.chosen = state.chosen === name ? null : name;
  showTrials(); showTrial(); drawCurves();
}

// Controls --------------------------------------------------------------------------------------

function chips(host, items, off) {
  host.replaceChildren(...items.map(({ value, label, mark }) => element("button", {
    type: "button", "aria-pressed": String(!off.has(value)), "data-value": String(value), style: mark ? `--mark: ${mark}` : "",
    onclick: (event) => {
      if (off.has(value)) off.delete(value); else off.add(value);
      event.currentTarget.setAttribute("aria-pressed", String(!off.has(value)));
      drawCurves(); drawHeat();
    },
  }, label)));
}

function setMetric(number) {
  state.metric = number;
  const { key, unit, meaning } = data.metrics[number];
  $("metric").value = key;
  $("meaning").textContent = [meaning, unit && `(${unit})`].filter(Boolean).join(" ");
  drawCurves(); drawHeat(); showFinal(); showTrials();
}

function setTheme(dark) {
  document.documentElement.classList.toggle("dark", dark);
  if (data) { drawCurves(); drawHeat(); }
}

function showFixed() {
  const counts = {};
  for (const trial of data.trials) counts[trial.status] = (counts[trial.status] || 0) + 1;
  $("counts").textContent = `${data.trials.length} trials: ${Object.entries(counts).map(([status, count]) => `${count} ${status}`).join(", ")}`;
  const faults = data.trials.flatMap((trial) => Object.entries(trial.faults).map(([key, count]) => ({ cells: [trial.name, key, count] })));
  $("faults").hidden = !faults.length;
  table($("fault-table"), ["trial", "what", right("at most")], faults);
  $("command-list").replaceChildren(...data.experiments.flatMap(({ name, folder, ...commands }) => [
    element("h3", {}, name), element("p", { class: "quiet" }, folder), ...Object.entries(commands).map(command)]));
  table($("common-table"), ["setting", "value"], Object.entries(data.common).map((cells) => ({ cells })));
  $("videos").hidden = !data.videos.length;
  $("video-list").replaceChildren(...data.videos.map(({ name, source }) => element("figure", {},
    source.startsWith("data:video") ? element("video", { src: source, controls: "", loop: "" }) : element("img", { src: source, alt: name }),
    element("figcaption", { class: "quiet" }, name))));
  document.querySelector("nav").replaceChildren(...[...document.querySelectorAll("main section:not([hidden])")].map(
    (section) => element("a", { href: `#${section.id}` }, section.querySelector("h2").textContent)));
}

function connect() {
  data.metrics.forEach(({ key, label, meaning }, number) => {
    $("metrics").append(element("option", { value: key }, meaning || label));
    $("metric-list").append(element("button", { type: "button", title: meaning || "not in the glossary", "data-key": key, onclick: () => setMetric(number) }, key));
  });
  $("metric").addEventListener("change", (event) => {
    const number = data.metrics.findIndex(({ key, label }) => [key, label].includes(event.target.value.trim()));
    setMetric(number < 0 ? state.metric : number);
  });
  $("metric").addEventListener("focus", (event) => event.target.select());
  const seeds = [...new Set(data.trials.map(seedOf))].sort((a, b) => a - b);
  chips($("seeds"), seeds.map((seed) => ({ value: seed, label: seed })), state.seedsOff);
  chips($("groups"), data.groups.map((group, number) => ({
    value: number, mark: colour(number), label: groupLabel(group) + (environments().length > 1 ? ` (${group.env})` : ""),
  })), state.groupsOff);
  const keys = numericKeys();
  $("heat").hidden = keys.length < 2;
  for (const [id, first] of [["across", 0], ["up", 1]]) {
    $(id).append(...keys.map((key) => element("option", { value: key }, key)));
    if (keys.length > 1) $(id).value = keys[first];
    $(id).addEventListener("change", drawHeat);
  }
  // It lies below the curves, which need not wait for it.
  const seen = () => { state.heatSeen = true; drawHeat(); };
  const observer = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) { observer.disconnect(); seen(); }
  }, { rootMargin: "400px" });
  observer.observe($("heat"));
  addEventListener("beforeprint", seen);
  for (const id of ["single", "mean"]) $(id).addEventListener("change", drawCurves);
  $("find").addEventListener("input", showTrials);
  const pick = (event) => { const row = event.target.closest("tr[data-trial]"); if (row) choose(row.dataset.trial); };
  $("trial-table").addEventListener("click", pick);
  $("trial-table").addEventListener("keydown", (event) => { if (event.key === "Enter") pick(event); });
  $("theme").addEventListener("click", () => setTheme(!document.documentElement.classList.contains("dark")));
}

async function unpack() {
  const packed = await fetch(`data:application/octet-stream;base64,${$("data").textContent.trim()}`);
  const found = await new Response(packed.body.pipeThrough(new DecompressionStream("deflate"))).json();
  for (const { axes, curves } of found.trials) for (const curve of Object.values(curves)) curve[0] = axes[curve[0]];
  return found;
}

async function start() {
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches);
  data = await unpack();
  connect();
  showFixed();
  setMetric(data.best);
  document.documentElement.dataset.ready = Math.ceil(performance.now()); // ms until it is usable
}

start();
