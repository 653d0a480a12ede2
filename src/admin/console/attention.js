// What needs somebody: calls whose outcome is unknown, and calls that went silent. Oldest first.

import { ask } from "./api.js";
import { byId, h, redraw, setText, table } from "./dom.js";
import { number, when } from "./format.js";
import { address, badge, isAbandoned, name, routesOf, story, tenant } from "./words.js";

const SHOWN = 10;

export async function fetchAttention(overview) {
  const unknown = await ask("GET", "/api/records", { query: { state: "UNKNOWN", limit: SHOWN } });
  const silent = await ask("GET", "/api/records", { query: { state: "PROCESSING", older_than: `${overview.stuck_after_seconds}s`, limit: SHOWN } });
  const stuck = silent.records.filter(isAbandoned);
  return [...stuck, ...unknown.records].sort((one, other) => one.updated_at.localeCompare(other.updated_at)).slice(0, SHOWN);
}

/** The scope, and the route under it. */
export function scopeCell(record, overview) {
  const routes = record.origin === "decision" ? ["decision API"] : routesOf(record.scope, overview);
  return h("div", {}, name(record.scope), routes.length > 0 && h("div.hint.clip", { title: routes.join("\n") }, routes.length > 1 ? `${routes[0]} +${routes.length - 1}` : routes[0]));
}

export const keyLink = (record, id) => h("a.key", { href: address(record), id }, name(record.key));

export function drawAttention(records, overview) {
  const all = (overview.records?.unknown ?? 0) + (overview.records?.stuck ?? 0);
  const more = all - records.length;
  setText(byId("attention-about"), records.length ? "Oldest first. Open one to see its life and to settle it." : "");
  byId("attention").classList.toggle("calm", records.length === 0);
  const told = records.map((record) => story(record, overview));
  redraw(byId("attention-list"), [records, told, more], () => {
    if (records.length === 0) {
      return h("p.empty", {}, h("span.good", { "aria-hidden": "true" }, "✓ "), "Nothing is stuck, and no call’s outcome is unknown.");
    }
    const rows = records.map((record, index) => {
      const { happened, retries } = told[index];
      return [badge(record, overview), keyLink(record, `attention-${index}`), scopeCell(record, overview), tenant(record.tenant), number(record.attempt), when(record.updated_at, "age"), h("div", {}, happened, h("div.hint", {}, retries))];
    });
    return [
      table("Records that need somebody", ["State", "Key", "Scope and route", "Tenant", "Attempt", "Age", "What happened"], rows),
      more > 0 && h("p.more", {}, `${number(more)} more: `, h("a", { href: "#records?state=UNKNOWN" }, "all that are unknown"), ", ", h("a", { href: "#records?state=PROCESSING" }, "all in process")),
    ].filter(Boolean);
  });
}
