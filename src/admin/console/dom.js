// Elements from text. Nothing here, or anywhere else, puts a value into the page as HTML.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** h("p.hint", { title }, "text", child …): null and false leave nothing behind. */
export function h(what, attributes = {}, ...children) {
  const [tag, ...classes] = what.split(".");
  return fill(document.createElement(tag), classes, attributes, children);
}

export function svg(what, attributes = {}, ...children) {
  const [tag, ...classes] = what.split(".");
  return fill(document.createElementNS(SVG, tag), classes, attributes, children);
}

function fill(element, classes, attributes, children) {
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "onclick") element.addEventListener("click", value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Only when it is another text: screen readers and selections are left alone otherwise. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function show(element, shown) {
  if (element.hidden === shown) element.hidden = !shown;
}

/** Draws anew when what is drawn has changed, and gives the focus back to whoever had it. */
export function redraw(container, signature, make) {
  const text = JSON.stringify(signature);
  if (container.drawn === text) return;
  const had = container.contains(document.activeElement) ? document.activeElement.id : "";
  container.replaceChildren(...[make()].flat());
  container.drawn = text;
  if (had) byId(had)?.focus();
}

/** A table that stays one for screen readers when a narrow page lays it out as cards. */
export function table(caption, columns, rows) {
  const head = columns.map((column) => h("th", { scope: "col", role: "columnheader" }, column));
  return h("div.scroll", {},
    h("table", { role: "table" },
      h("caption.unseen", {}, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ...head)),
      h("tbody", { role: "rowgroup" }, ...rows.map((cells) =>
        h("tr", { role: "row" }, ...cells.map((cell, index) =>
          h("td", { role: "cell", "data-label": columns[index] }, cell)))))));
}
