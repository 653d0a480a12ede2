// The head of the page: how the gateway is, and what it did in the last minutes.

import { Chart } from "./charts.js";
import { byId, h, redraw, setText } from "./dom.js";
import { duration, number, percent, rate } from "./format.js";

const KEPT_S = 300;
/** Rates are told over this long, so that a calm minute does not look like a storm. */
const WINDOW_S = 10;

let samples = [];
let charts = null;
const open = {};

const sum = (counts, leftOut) => Object.entries(counts).reduce((all, [word, count]) => (word === leftOut ? all : all + count), 0);

/** How fast each counter went between two samples. */
function between(one, other) {
  const seconds = other.at - one.at;
  const of = (group, word) => (other.counts[group][word] - one.counts[group][word]) / seconds;
  const keyed = (sum(other.counts.requests, "untouched") - sum(one.counts.requests, "untouched")) / seconds;
  const replayed = of("requests", "replayed");
  return {
    at: other.at, restarted: other.restarted, keyed, replayed, executed: of("requests", "executed"),
    in_progress: of("conflicts", "in_progress"), mismatch: of("conflicts", "mismatch"),
    ratio: keyed > 0 ? replayed / keyed : null,
  };
}

/** A counter that went back, or a process that is younger than before: it was started anew. */
function take(overview) {
  if (!overview.counts) return;
  const at = performance.now() / 1000;
  const before = samples.at(-1);
  const restarted = before !== undefined && (overview.uptime_seconds < before.uptime - 1 || sum(overview.counts.requests) < sum(before.counts.requests));
  samples.push({ at, counts: overview.counts, uptime: overview.uptime_seconds, restarted });
  samples = samples.filter((sample) => at - sample.at <= KEPT_S);
}

function points() {
  const found = [];
  for (let last = 1; last < samples.length; last += 1) {
    if (samples[last].restarted) continue;
    let first = last - 1;
    while (first > 0 && !samples[first].restarted && samples[last].at - samples[first - 1].at <= WINDOW_S) first -= 1;
    found.push({ ...between(samples[first], samples[last]), restarted: samples[last - 1].restarted });
  }
  return found;
}

function build() {
  const ratio = new Chart({
    title: "Hit ratio", about: "Replayed among all requests with a key", top: 1, format: percent,
    series: [{ name: "replayed", of: (point) => point.ratio }],
  });
  const requests = new Chart({
    title: "Requests", about: "Requests that a route is about", format: rate,
    series: [{ name: "executed", of: (point) => point.executed }, { name: "replayed", of: (point) => point.replayed }],
  });
  const conflicts = new Chart({
    title: "Conflicts", about: "Duplicates of a running call, and keys used for another request", format: rate,
    series: [{ name: "in progress", of: (point) => point.in_progress }, { name: "reused key", of: (point) => point.mismatch }],
  });
  const row = (id, label) => {
    open[id] = h("dd");
    open[`${id}_row`] = h("div.row", {}, h("dt", {}, label), open[id]);
    return open[`${id}_row`];
  };
  open.note = h("p.hint");
  const records = h("section.card.open-records", { "aria-label": "Open records" }, h("h3", {}, "Open records"),
    h("dl", {}, row("unknown", "unknown"), row("stuck", "stuck"), row("processing", "processing"), row("oldest", "oldest processing")), open.note);
  byId("figures").replaceChildren(records, ratio.element, requests.element, conflicts.element);
  charts = { ratio, requests, conflicts };
}

export function draw(overview) {
  if (charts === null) build();
  take(overview);
  const found = points();
  const now = found.at(-1);
  const counts = overview.counts;
  if (counts) {
    const { requests, conflicts } = counts;
    const keyed = sum(requests, "untouched");
    charts.ratio.draw(found, percent(now?.ratio ?? null), `since start ${percent(keyed ? requests.replayed / keyed : null)} of ${number(keyed)} with a key`);
    charts.requests.draw(found, rate(now?.keyed ?? null), `since start ${number(requests.executed)} executed, ${number(requests.replayed)} replayed`);
    charts.conflicts.draw(found, rate(now ? now.in_progress + now.mismatch : null), `since start ${number(conflicts.in_progress)} in progress, ${number(conflicts.mismatch)} reused`);
  } else {
    for (const chart of Object.values(charts)) chart.draw([], "–", "nothing is counted: the gateway is embedded in a program that counts by itself");
  }
  drawOpen(overview);
  drawHead(overview);
}

function drawOpen({ records, stuck_after_seconds }) {
  const told = (id, value, alarming) => {
    setText(open[id], value);
    open[`${id}_row`].classList.toggle("alarming", Boolean(alarming));
  };
  const count = (value) => (records ? number(value) : "–");
  told("unknown", count(records?.unknown), records?.unknown);
  told("stuck", count(records?.stuck), records?.stuck);
  told("processing", count(records?.processing));
  told("oldest", records && records.oldest_processing_seconds !== null ? duration(records.oldest_processing_seconds) : "–", records?.stuck);
  setText(open.note, `stuck: silent for ${duration(stuck_after_seconds)}, its lease over`);
}

function drawHead(overview) {
  setText(byId("about"), `version ${overview.version} · up ${duration(overview.uptime_seconds)}${overview.may_change ? "" : " · read-only"}`);
  const { durable, fast } = overview.tiers;
  const tiers = [["durable", durable.kind, durable.up], ["fast", fast.kind, fast.up]];
  redraw(byId("tiers"), tiers, () => tiers.map(([tier, kind, up]) => {
    const word = up === null ? "none" : up ? "up" : "down";
    const sign = { up: "✓", down: "✕", none: "–" }[word];
    const title = tier === "durable" ? `The tier that admits: ${kind}` : "The tier that answers most duplicates";
    return h(`li.tier.${word}`, { title }, h("span", { "aria-hidden": "true" }, sign), `${tier} ${word}`);
  }));
}

export function forgetSamples() {
  samples = [];
}
