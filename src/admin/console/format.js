// Numbers and times as people read them.

import { now } from "./api.js";
import { h, setText } from "./dom.js";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const number = (value) => whole.format(value);

export function rate(value) {
  if (value === null) return "–";
  if (value === 0) return "0/s";
  if (value < 0.1) return "<0.1/s";
  return `${value < 10 ? Number(value.toFixed(1)) : whole.format(value)}/s`;
}

export function percent(ratio) {
  if (ratio === null) return "–";
  const value = ratio * 100;
  return `${value > 0 && value < 10 ? value.toFixed(1) : Math.floor(value)} %`;
}

/** Two units at most: 3 min 20 s, 2 h 5 min, 6 d 4 h. */
export function duration(seconds) {
  const rest = Math.max(0, Math.floor(seconds));
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => rest >= size);
  if (first < 0) return "0 s";
  const [unit, size] = units[first];
  const next = units[first + 1];
  const more = next ? Math.floor((rest % size) / next[1]) : 0;
  // From minutes on, seconds only blur the picture.
  const shown = more > 0 && !(next[0] === "s" && rest >= 600);
  return `${Math.floor(rest / size)} ${unit}${shown ? ` ${more} ${next[0]}` : ""}`;
}

export function relative(iso) {
  const seconds = (now() - Date.parse(iso)) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  return seconds > 0 ? `${duration(seconds)} ago` : `in ${duration(-seconds)}`;
}

/** In UTC, as logs and databases have it. */
export const exact = (iso) => `${iso.replace("T", " ").replace("Z", "")} UTC`;

function title(iso) {
  const local = new Date(iso).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
  return `${exact(iso)} (here: ${local})`;
}

/** How long ago, kept true by `tick`, with the exact time as its title. */
export function when(iso, how = "ago") {
  const element = h("time", { datetime: iso, title: title(iso), "data-how": how });
  refresh(element);
  return element;
}

function refresh(element) {
  const age = (now() - Date.parse(element.dateTime)) / 1000;
  setText(element, element.dataset.how === "age" ? duration(age) : relative(element.dateTime));
}

export function tick() {
  document.querySelectorAll("time[data-how]").forEach(refresh);
}
