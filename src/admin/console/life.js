// A record's life: what happened to it, and what will, in the order of time.

import { h } from "./dom.js";
import { exact, when } from "./format.js";
import { isPast, isRunning, mayRunAgain } from "./words.js";

const ENDINGS = {
  SUCCEEDED: ["Succeeded", "good"],
  FAILED: ["Failed", "bad"],
  UNKNOWN: ["Outcome unknown", "warn"],
};

const ACTS = {
  "resolved as succeeded": "Settled as succeeded",
  "resolved as failed": "Settled as failed",
  "resolved, retry allowed": "A retry was allowed",
  forgotten: "Forgotten",
};

/** [{ at, what, more, tone }], oldest first. */
export function life(record, overview) {
  const events = [{ at: record.created_at, what: "First request", more: "The key was seen for the first time.", tone: "" }];
  const add = (at, what, more = "", tone = "") => at && events.push({ at, what, more, tone });
  const ending = ENDINGS[record.state];
  if (record.last_error && record.last_error_at !== record.updated_at) {
    add(record.last_error_at, "An attempt went wrong", record.last_error, "bad");
  }
  if (record.state === "PROCESSING") {
    if (record.attempt > 1 || record.updated_at !== record.created_at) add(record.updated_at, `Attempt ${record.attempt} began`);
    else events[0].what = "First request, attempt 1 began";
    if (isRunning(record)) add(record.lease_until, "Lease ends", "It is renewed while the call runs.");
    else add(record.lease_until, "Lease ran out", "Nobody renewed it, and nobody said how the call ended.", "warn");
  } else {
    const answer = record.response ? `Answer ${record.response.status}${record.response.body_stored === false ? ", without its body" : ""} stored.` : "";
    const wrong = record.last_error_at === record.updated_at ? record.last_error : "";
    add(record.updated_at, `${ending[0]} (attempt ${record.attempt})`, [wrong, answer].filter(Boolean).join(". "), ending[1]);
  }
  for (const act of record.audit ?? []) {
    add(act.at, `${ACTS[act.action] ?? act.action} by ${act.actor}`, act.note && `“${act.note}”`, "hand");
  }
  const retryMatters = record.retries === "execute" || record.origin === "decision" || mayRunAgain(record, overview);
  if (record.next_retry_at && retryMatters) add(record.next_retry_at, "A retry may run it again");
  add(record.expires_at, "Expires", "From then on the key is new.");
  return events.sort((one, other) => one.at.localeCompare(other.at));
}

export function timeline(events) {
  return h("ol.life", {}, ...events.map(({ at, what, more, tone }) =>
    h(`li${tone ? `.${tone}` : ""}${isPast(at) ? "" : ".ahead"}`, {},
      h("p.what", {}, what, " ", when(at)),
      more && h("p.more", {}, more),
      h("p.hint", {}, exact(at)))));
}

/** Who did what, and why. */
export function auditTrail(audit) {
  if (!audit?.length) return h("p.empty", {}, "No operator has touched it.");
  return h("ul.audit", {}, ...audit.map((act) =>
    h("li", {}, h("p", {}, h("b", {}, `${ACTS[act.action] ?? act.action}`), ` by ${act.actor} `, when(act.at)), h("p.note", {}, act.note || "(no note)"))));
}
