"use strict";
// The page of `onkel serve`: asks the API, follows one model's events, draws its curves. No other host, no build step.

const $ = (id) => document.getElementById(id);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const said = { classes: "share of mistakes", reals: "mean absolute error", novelty: "share of alerts" };
let chosen = null, following = null, curve = [], charts = [];

function headers(more) {
  const key = sessionStorage.getItem("onkel-key");
  return key ? { ...more, Authorization: `Bearer ${key}` } : { ...more };
}

async function ask(path, body) {
  const answer = await fetch(path, body === undefined ? { headers: headers() } :
    { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body) });
  const told = await answer.json();
  $("key-form").hidden = answer.status !== 401 && answer.status !== 403;
  if (!answer.ok) throw new Error(told.detail || answer.statusText);
  return told;
}

const number = (value, digits = 3) => value === null || value === undefined ? "none yet" :
  Number.isInteger(value) ? value.toLocaleString("en") : Number(value).toPrecision(digits);
const bytes = (value) => value < 1e4 ? `${value} B` : value < 1e7 ? `${(value / 1e3).toFixed(0)} kB` : `${(value / 1e6).toFixed(0)} MB`;

function cell(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

async function refresh() {
  try {
    const { models } = await ask("/v1/models");
    $("status").textContent = `${models.length} ${models.length === 1 ? "model" : "models"}, live`;
    $("empty").hidden = $("make").hidden = models.length > 0;
    $("make").textContent = `curl -X PUT ${location.origin}/v1/models/mine \\\n  -H 'Content-Type: application/json' -d '{"task": "classes"}'`;
    const list = $("models");
    const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.name : undefined;
    list.replaceChildren(...models.map((model) => {
      const item = document.createElement("li"), button = document.createElement("button");
      button.type = "button";
      button.dataset.name = model.name;
      button.append(model.name, cell("small", model.shadow_of ? `shadow of ${model.shadow_of}` : `${number(model.step)} learned`));
      button.setAttribute("aria-current", String(model.name === chosen));
      button.onclick = () => choose(model.name);
      item.append(button);
      return item;
    }));
    if (focused) list.querySelectorAll("button").forEach((b) => b.dataset.name === focused && b.focus());
    if (!models.some((model) => model.name === chosen)) models.length ? choose(models[0].name) : leave();
    const shown = models.find((model) => model.name === chosen);
    if (shown) describe(shown);
  } catch (error) {
    $("status").textContent = error instanceof TypeError ? "the server cannot be reached; trying again" : error.message;
  }
}

function describe(model) {
  $("name").textContent = model.name;
  const kind = model.model === "auto" ? "self-tuning" : "kernel";
  $("summary").textContent = `${kind} model for ${model.task}` + (model.shadow_of ? `, shadow of ${model.shadow_of}` : "");
  const facts = [
    ["examples learned", number(model.step)],
    [said[model.task], number(model.error)],
    ["lately", number(model.recent)],
    ["repeating the last label", model.task === "novelty" ? "has no meaning here" : number(model.no_change)],
    ["points in use", number(model.points)],
    ["memory", bytes(model.bytes)],
    ["late labels", `${model.predictions.labelled} learned, ${model.predictions.late} too late, ${model.predictions.unknown} unknown, ${model.predictions.expired} expired`],
    ["parameters", Object.entries(model.params).map(([k, v]) => `${k}=${v}`).join(", ") || "defaults"],
    ["features", model.schema.features ? model.schema.features.join(", ") : model.schema.width ? `${model.schema.width} numbers` : "fixed by the first example"],
    ["hash", model.hash.slice(0, 16)],
  ];
  if (model.coverage) facts.push(["intervals hold the target", `${number(model.inside)} of the time, ${model.coverage} wanted`]);
  if (model.beside) facts.push(["beside its model", `better ${model.beside.better} times, worse ${model.beside.worse}, p = ${number(model.beside.p_value)}`]);
  $("facts").replaceChildren(...facts.map(([name, value]) => {
    const row = document.createElement("tr");
    const head = cell("th", name);
    head.scope = "row";
    row.append(head, cell("td", value));
    return row;
  }));
  if (!$("row").value && model.schema.width) {
    const names = model.schema.features;
    $("row").value = JSON.stringify(names ? Object.fromEntries(names.map((name) => [name, 0])) : Array(model.schema.width).fill(0));
  }
}

function leave() {
  chosen = null;
  $("model").hidden = true;
  if (following) following.abort();
}

function choose(name) {
  if (following) following.abort();
  chosen = name;
  curve = [];
  $("row").value = "";
  $("answer").textContent = "";
  $("model").hidden = false;
  document.querySelectorAll("#models button").forEach((b) => b.setAttribute("aria-current", String(b.dataset.name === name)));
  follow(name);
  refresh();
}

async function follow(name) {                      // fetch instead of EventSource, which cannot send a key
  const mine = following = new AbortController();
  while (!mine.signal.aborted) {
    try {
      const answer = await fetch(`/v1/models/${name}/events`, { headers: headers(), signal: mine.signal });
      if (answer.status === 404) return;
      if (!answer.ok) throw new Error(answer.statusText);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = "";;) {
        const { value, done } = await reader.read();
        if (done) break;
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        for (const part of parts) hear(part);
      }
    } catch (error) {
      if (mine.signal.aborted) return;
    }
    $("status").textContent = "the server cannot be reached; trying again";
    await new Promise((done) => setTimeout(done, 1000));
  }
}

function hear(part) {
  const kind = /^event: (\w+)$/m.exec(part), data = /^data: (.*)$/m.exec(part);
  if (!kind || !data) return;
  const told = JSON.parse(data[1]);
  if (kind[1] === "curve") curve = told;
  else if (!curve.length || told.step > curve[curve.length - 1].step) curve.push(told);
  else if (told.step < curve[curve.length - 1].step) curve = curve.filter((point) => point.step < told.step).concat([told]);
  if (curve.length > 1200) curve = curve.filter((_, i) => i % 2 === 0 || i > 900);
  draw();
}

function plot(place, series, data) {
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
  return new uPlot({ width: place.clientWidth, height: place.id === "chart" ? 260 : 120, scales: { x: { time: false } },
    cursor: { drag: { x: false } }, axes: [{ ...axis }, { ...axis, size: 60 }], series: [{ label: "examples" }, ...series] }, data, place);
}

function draw() {
  const column = (name) => curve.map((point) => point[name] ?? null), x = column("step");
  const data = [[x, column("recent"), column("error"), column("no_change_recent")], [x, column("points")]];
  if (charts.length) charts.forEach((chart, i) => chart.setData(data[i]));
  else if ($("chart").clientWidth) charts = [
    plot($("chart"), [{ label: "lately", stroke: colour("--model"), width: 2 }, { label: "so far", stroke: colour("--model"), dash: [4, 4] },
      { label: "last label repeated", stroke: colour("--idle") }], data[0]),
    plot($("points"), [{ label: "points", stroke: colour("--model"), width: 2 }], data[1])];
  const last = curve[curve.length - 1];
  if (last) $("words").textContent = `After ${number(last.step)} examples: ${number(last.recent)} lately, ${number(last.error)} so far; repeating the last label: ${number(last.no_change_recent)}.`;
}

function redraw() {
  charts.forEach((chart) => chart.destroy());
  charts = [];
  draw();
}

async function answer(path) {
  try {
    const row = JSON.parse($("row").value);
    const told = await ask(`/v1/models/${chosen}/${path}`, { rows: [row] });
    $("answer").textContent = path === "explain" ? told.explanations[0].text : JSON.stringify(told.predictions[0], null, 1);
  } catch (error) {
    $("answer").textContent = error instanceof SyntaxError ? "That is not JSON: try [0.5, 1.0]" : error.message;
  }
}

$("try").onsubmit = (event) => { event.preventDefault(); answer("predict"); };
$("why").onclick = () => answer("explain");
$("key-form").onsubmit = (event) => { event.preventDefault(); sessionStorage.setItem("onkel-key", $("key").value); refresh(); if (chosen) choose(chosen); };
window.addEventListener("resize", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
refresh();
setInterval(refresh, 2000);
