// All records: filters, and page after page by cursor.

import { ask } from "./api.js";
import { keyLink, scopeCell } from "./attention.js";
import { byId, h, redraw, setText, show, table } from "./dom.js";
import { number, when } from "./format.js";
import { badge, story, tenant } from "./words.js";

const LIMIT = 25;
/** Pages may be short, even empty, and still have a next one: so many are looked through at once. */
const EMPTY_PAGES = 8;
const FILTERS = ["key", "state", "scope", "tenant", "older_than"];

let filters = {};
let cursor = null;
let next = null;
let page = 1;
let shown = [];

const field = (filter) => byId("search").elements[filter];

/** From the address of the page: `#records?state=UNKNOWN`. */
export function setFilters(query) {
  filters = Object.fromEntries(FILTERS.map((filter) => [filter, query.get(filter) ?? ""]));
  for (const filter of FILTERS) field(filter).value = filters[filter];
  toFirstPage();
}

export const addressOfForm = () => {
  const asked = FILTERS.map((filter) => [filter, field(filter).value]).filter(([, value]) => value !== "");
  return asked.length ? `#records?${new URLSearchParams(asked)}` : "#";
};

const toFirstPage = () => { cursor = null; page = 1; };

export function start(refresh) {
  const go = async (turn) => {
    turn();
    await refresh();
    byId("records-heading").focus();
  };
  byId("next-page").addEventListener("click", () => go(() => { cursor = next; page += 1; }));
  byId("first-page").addEventListener("click", () => go(toFirstPage));
}

export async function fetchRecords() {
  let from = cursor;
  for (let looked = 1; ; looked += 1) {
    const { records, next_cursor } = await ask("GET", "/api/records", { query: { ...filters, limit: LIMIT, cursor: from } });
    if (records.length > 0 || next_cursor === null || looked === EMPTY_PAGES) {
      [shown, next] = [records, next_cursor];
      return;
    }
    from = next_cursor;
  }
}

export function drawRecords(overview) {
  const filtered = FILTERS.some((filter) => filters[filter] !== "");
  const longestFirst = ["UNKNOWN", "PROCESSING", "FAILED"].includes(filters.state) && filters.key === "";
  setText(byId("records-about"), shown.length ? `${longestFirst ? "Unchanged longest first" : "Newest first"}, page ${page}` : "");
  redraw(byId("scopes"), overview.routes, () => [...new Set(overview.routes.map((route) => route.scope))].map((scope) => h("option", { value: scope })));
  const told = shown.map((record) => story(record, overview).happened);
  redraw(byId("records-list"), [shown, told, next, filtered], () => (shown.length ? list(told, overview) : nothing(filtered)));
  show(byId("paging"), next !== null || page > 1);
  byId("next-page").disabled = next === null;
  byId("first-page").disabled = page === 1;
}

function list(told, overview) {
  const rows = shown.map((record, index) => [
    badge(record, overview), keyLink(record, `listed-${index}`), scopeCell(record, overview), tenant(record.tenant),
    number(record.attempt), when(record.updated_at), told[index],
  ]);
  return table("Records", ["State", "Key", "Scope and route", "Tenant", "Attempt", "Last change", "What happened"], rows);
}

function nothing(filtered) {
  if (next !== null) return h("p.empty", {}, "Nothing fits among those looked at so far. “Next page” looks further.");
  if (filtered) return h("p.empty", {}, "No record fits. A key is compared exactly, with its case and spaces; a record that has expired is gone.");
  return h("p.empty", {}, "No records yet. The first request with an idempotency key makes one.");
}
