// Small line charts, drawn by hand: a shared width of time, a line for each series.

import { h, setText, svg } from "./dom.js";
import { duration } from "./format.js";

const WIDTH = 300;
const HEIGHT = 64;
const SHORTEST_S = 30;
const LONGEST_GAP_S = 45;

/** The next of 1, 2, 5, 10, 20 … */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

export class Chart {
  /** series: [{ name, of: (point) => number | null }]; top: the highest value, if it is fixed. */
  constructor({ title, about, series, format, top }) {
    Object.assign(this, { title, series, format, top, points: [] });
    this.headline = h("p.headline");
    this.note = h("p.hint");
    this.values = series.map(() => h("b"));
    this.legend = h("p.legend", {}, ...series.map((one, index) =>
      h(`span.s${index}`, {}, svg("svg.swatch", { viewBox: "0 0 16 6", "aria-hidden": "true" }, svg(`path.line.s${index}`, { d: "M0 3h16" })), `${one.name} `, this.values[index])));
    this.scale = h("span.scale", { "aria-hidden": "true" });
    this.plot = svg("svg.plot", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
    this.span = h("span.span", { "aria-hidden": "true" });
    this.element = h("section.card", { "aria-label": title },
      h("h3", { title: about }, title), this.headline, this.legend,
      h("div.frame", {}, this.plot, this.scale, this.span), this.note);
    this.plot.addEventListener("pointermove", (event) => this.pointAt(event));
    this.plot.addEventListener("pointerleave", () => this.pointAt(null));
  }

  draw(points, headline, note) {
    this.points = points;
    setText(this.headline, headline);
    setText(this.note, note);
    const end = points.at(-1)?.at ?? 0;
    const length = Math.max(SHORTEST_S, end - (points[0]?.at ?? 0));
    this.x = (at) => WIDTH - ((end - at) / length) * WIDTH;
    const values = points.flatMap((point) => this.series.map((one) => one.of(point) ?? 0));
    const top = this.top ?? roundUp(Math.max(1, ...values));
    const y = (value) => HEIGHT - 1 - (value / top) * (HEIGHT - 4);
    const shapes = [svg("path.grid", { d: `M0 ${y(top)}H${WIDTH}M0 ${y(top / 2)}H${WIDTH}M0 ${y(0)}H${WIDTH}` })];
    // The first series lies on top: it is what the headline is about.
    this.series.map((one, index) => [one, index]).reverse().forEach(([one, index]) => {
      for (const run of this.runs(one.of)) {
        const line = run.map(([at, value], place) => `${place ? "L" : "M"}${this.x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("");
        const [first, last] = [this.x(run[0][0]).toFixed(1), this.x(run.at(-1)[0]).toFixed(1)];
        if (index === 0) shapes.push(svg("path.area.s0", { d: `${line}L${last} ${y(0)}L${first} ${y(0)}Z` }));
        shapes.push(svg(`path.line.s${index}`, { d: run.length > 1 ? line : `${line}h0.1` }));
      }
    });
    this.rule = svg("path.rule", { d: "" });
    this.plot.replaceChildren(...shapes, this.rule);
    setText(this.scale, this.format(top));
    setText(this.span, `last ${duration(length)}`);
    this.plot.setAttribute("aria-label", `${this.title}, last ${duration(length)}: ${headline} now`);
    this.pointAt(this.pointed);
  }

  /** Pieces without a gap: where nothing was measured, nothing is drawn. */
  runs(of) {
    const runs = [];
    let run = [], before = null;
    for (const point of this.points) {
      const value = of(point);
      const broken = value === null || point.restarted || (before !== null && point.at - before > LONGEST_GAP_S);
      if (broken && run.length) { runs.push(run); run = []; }
      if (value !== null) run.push([point.at, value]);
      before = point.at;
    }
    if (run.length) runs.push(run);
    return runs;
  }

  /** The legend tells the values under the pointer, or the last ones. */
  pointAt(event) {
    this.pointed = event;
    let point = this.points.at(-1);
    if (event && this.points.length) {
      const box = this.plot.getBoundingClientRect();
      const place = ((event.clientX - box.left) / box.width) * WIDTH;
      point = this.points.reduce((best, one) => (Math.abs(this.x(one.at) - place) < Math.abs(this.x(best.at) - place) ? one : best));
      this.rule.setAttribute("d", `M${this.x(point.at).toFixed(1)} 0V${HEIGHT}`);
    } else {
      this.rule?.setAttribute("d", "");
    }
    this.series.forEach((one, index) => setText(this.values[index], point ? this.format(one.of(point)) : "–"));
  }
}
