// What became of a record, in words: for somebody who was just called about it.

import { now } from "./api.js";
import { h } from "./dom.js";
import { relative } from "./format.js";

const SIGNS = { unknown: "?", processing: "…", stuck: "!", abandoned: "!", succeeded: "✓", failed: "✕" };

export const isPast = (iso) => Date.parse(iso) <= now();

export const isRunning = (record) => record.state === "PROCESSING" && !isPast(record.lease_until);

/** Nobody runs it, and it has no answer. */
export const maySettle = (record) => record.state !== "SUCCEEDED" && !isRunning(record);

/** Its lease is over, and nobody said how it ended. */
export const isAbandoned = (record) => record.state === "PROCESSING" && !isRunning(record);

const isStuck = (record, overview) => isAbandoned(record) && now() - Date.parse(record.updated_at) >= overview.stuck_after_seconds * 1000;

/** A sign and a word: the colour only repeats them. */
export function badge(record, overview) {
  const word = isStuck(record, overview) ? "stuck" : isAbandoned(record) ? "abandoned" : record.state.toLowerCase();
  return h(`span.badge.${word}`, {}, h("span", { "aria-hidden": "true" }, SIGNS[word]), word);
}

/** A key or another name that somebody else chose; its spaces are part of it. */
export const name = (text) => h("bdi.name", { title: text }, text);

export const tenant = (text) => (text === "" ? h("span.none", {}, "none") : name(text));

/** The routes whose records have this scope. */
export function routesOf(scope, overview) {
  const own = (overview?.routes ?? []).filter((route) => route.scope === scope);
  return own.map((route) => `${route.methods.join(", ")} ${route.path}`);
}

/** Whether this scope's route lets a retry run what may have run. */
export const mayRunAgain = (record, overview) => (overview.routes ?? []).some((route) => route.scope === record.scope && route.when_unknown === "retry");

const fromThen = (iso) => (iso && !isPast(iso) ? relative(iso) : "now");

/** What happened, and what a retry gets now. */
export function story(record, overview) {
  return record.origin === "decision" ? storyOfDecision(record) : storyOfCall(record, overview);
}

function storyOfCall(record, overview) {
  const { last_error: error, response } = record;
  const held = "Retries get 409 outcome-unknown until somebody settles it.";
  const allowed = (from) => `This route allows it: a retry runs it again ${fromThen(from)}.`;
  switch (record.state) {
    case "UNKNOWN":
      return {
        happened: error ? `Sent to the API; ${error}.` : "Sent to the API, and no answer came back.",
        retries: mayRunAgain(record, overview) ? allowed(record.next_retry_at) : held,
      };
    case "PROCESSING":
      return isRunning(record)
        ? { happened: "It runs now, under its lease.", retries: "Retries wait for its answer, or get 409 in-progress." }
        : {
          happened: "It began, its lease ran out, and nobody said how it ended: its gateway may have died.",
          retries: mayRunAgain(record, overview) ? allowed(null) : held,
        };
    case "SUCCEEDED":
      return {
        happened: `Done: the answer is ${response.status}.`,
        retries: response.body_stored === false ? "Its body is not stored: retries get 409 response-not-stored." : "Retries get the stored answer.",
      };
    default:
      return {
        happened: error ? `It failed: ${error}.` : "It failed.",
        retries: {
          execute: `A retry runs it again ${fromThen(record.next_retry_at)}.`,
          replay: `Retries get the stored answer, ${response?.status}.`,
          refuse: "Retries get 409 attempt-failed.",
        }[record.retries],
      };
  }
}

/** Where a workflow runs it and asks by /acquire. */
function storyOfDecision(record) {
  const { last_error: error, response } = record;
  switch (record.state) {
    case "UNKNOWN":
      return { happened: `A workflow began it, and nobody knows how it ended${error ? `: ${error}` : ""}.`, retries: `The next acquire is told to PROCEED ${fromThen(record.next_retry_at)}.` };
    case "PROCESSING":
      return isRunning(record)
        ? { happened: "A workflow runs it now, under its lock.", retries: "Others who acquire it are told RETRY_LATER." }
        : { happened: "A workflow began it, and its lock ran out.", retries: "The next acquire is told to PROCEED." };
    case "SUCCEEDED":
      return response.status === 409
        ? { happened: "Completed as CONFLICT.", retries: "Whoever acquires it is told CONFLICT." }
        : { happened: "Completed as DONE.", retries: "Whoever acquires it is told SKIP_ALREADY_DONE." };
    default:
      return {
        happened: `Completed as FAILED${error ? `: ${error}` : ""}.`,
        retries: record.retries === "execute" ? `The next acquire is told to PROCEED ${fromThen(record.next_retry_at)}.` : "Whoever acquires it is told CONFLICT.",
      };
  }
}

/** Where a record is shown on this page. */
export function address(record) {
  return `#record?${new URLSearchParams({ tenant: record.tenant, scope: record.scope, key: record.key })}`;
}
