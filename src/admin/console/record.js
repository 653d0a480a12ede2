// One record: what happened, its life, the stored answer, and what may be done to it.

import { ask, Refused } from "./api.js";
import { openForget, openSettle } from "./changes.js";
import { byId, h, redraw } from "./dom.js";
import { number } from "./format.js";
import { auditTrail, life, timeline } from "./life.js";
import { badge, isRunning, maySettle, name, routesOf, story, tenant } from "./words.js";

let identity = null;
let record = null;
let gone = null;

export function setRecord(query) {
  identity = { tenant: query.get("tenant") ?? "", scope: query.get("scope") ?? "", key: query.get("key") ?? "" };
  [record, gone] = [null, null];
  byId("record-heading").replaceChildren("Record ", name(identity.key));
  redraw(byId("record-body"), "reading", () => h("p.empty", {}, "Reading…"));
}

export async function fetchRecord() {
  try {
    [record, gone] = [await ask("GET", "/api/record", { query: identity }), null];
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 404) throw error;
    [record, gone] = [null, error];
  }
}

export function drawRecord(overview) {
  const body = byId("record-body");
  if (gone !== null) {
    redraw(body, gone.problem, () => [
      h("div.panel", {}, h("p.verdict", {}, gone.problem.audit ? "There is no such record any more." : "There is no such record."),
        h("p.hint", {}, "The next request with this tenant, scope and key is a new one.")),
      h("div.panel", {}, h("h3", {}, "Audit trail"), auditTrail(gone.problem.audit)),
    ]);
  } else if (record !== null) {
    // The time of reading is another with every look; whether the lease is over is not in the record.
    const { now, ...rest } = record;
    redraw(body, [rest, story(record, overview), isRunning(record), overview.may_change, overview.routes], () => view(overview));
  }
}

function view(overview) {
  const { happened, retries } = story(record, overview);
  return [
    h("div.panel.summary", {},
      h("div", {}, badge(record, overview), h("p.verdict", {}, happened), h("p.hint", {}, retries)),
      overview.may_change && buttons()),
    h("div.columns", {},
      h("section.panel", { "aria-labelledby": "life-heading" }, h("h3", { id: "life-heading" }, "Its life"), timeline(life(record, overview))),
      h("div.column", {},
        h("section.panel", { "aria-labelledby": "facts-heading" }, h("h3", { id: "facts-heading" }, "What it is"), facts(overview)),
        record.response && h("section.panel", { "aria-labelledby": "answer-heading" }, h("h3", { id: "answer-heading" }, "The stored answer"), answer(overview)),
        h("section.panel", { "aria-labelledby": "audit-heading" }, h("h3", { id: "audit-heading" }, "Audit trail"), auditTrail(record.audit)))),
  ];
}

function buttons() {
  if (isRunning(record)) return h("p.hint.aside", {}, "It can be settled when it has ended, or when its lease has run out.");
  return h("div.buttons", {},
    maySettle(record) && h("button.primary", { type: "button", id: "open-settle", onclick: () => openSettle(record) }, "Settle…"),
    h("button.quiet", { type: "button", id: "open-forget", onclick: () => openForget(record) }, "Forget…"));
}

function facts(overview) {
  const routes = routesOf(record.scope, overview);
  const rows = [
    ["Key", name(record.key)],
    ["Scope", name(record.scope)],
    record.origin === "decision" ? ["Asked by", "the decision API: a workflow runs it"] : ["Route", routes.length ? routes.map((route) => h("div", {}, h("code", {}, route))) : h("span.none", {}, "no route has this scope any more, or a service runs it")],
    ["Tenant", tenant(record.tenant)],
    ["Attempt", number(record.attempt)],
    record.result_ref && ["Result", name(record.result_ref)],
    ["Fingerprint", record.fingerprint ? h("code.fingerprint", {}, record.fingerprint) : h("span.none", {}, "none")],
  ];
  return h("dl.facts", {}, ...rows.filter(Boolean).map(([what, value]) => h("div.row", {}, h("dt", {}, what), h("dd", {}, value))));
}

function answer(overview) {
  const { status, headers, body, body_base64, body_bytes, body_stored } = record.response;
  const about = body_stored === false ? "Its body was too long to store, or was not given."
    : body !== undefined ? `${number(body_bytes)} bytes`
      : body_base64 !== undefined ? `${number(body_bytes)} bytes, not text; here in base64`
        : `${number(body_bytes)} bytes, not shown: admin.show_bodies is ${overview.show_bodies ? "on" : "off"}.`;
  return h("div", {},
    h("p", {}, h("b", {}, `${status}`)),
    headers?.length > 0 && h("pre.message", { tabindex: "0", "aria-label": "Headers" }, headers.map(([header, value]) => `${header}: ${value}`).join("\n")),
    h("p.hint", {}, about),
    (body ?? body_base64) && h("pre.message", { tabindex: "0", "aria-label": "Body" }, body ?? body_base64));
}
