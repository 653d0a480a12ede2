// What became of a record, in words: for somebody who was just called about it.

import { now } from "./api.js";
import { h } from "./dom.js";
import { relative } from "./format.js";

const SIGNS = { UNKNOWN: "?", PROCESSING: "…", STUCK: "!", SUCCEEDED: "✓", FAILED: "✕", FORGOTTEN: "–" };

export const isPast = (iso) => Date.parse(iso) <= now();

export const isRunning = (record) => record.state === "PROCESSING" && !isPast(record.lease_until);

/** Nobody runs it, and it has no answer. */
export const maySettle = (record) => record.state !== "SUCCEEDED" && !isRunning(record);

/** A sign and a word: the colour only repeats them. */
export function badge(record) {
  const abandoned = record.state === "PROCESSING" && !isRunning(record);
  const kind = abandoned ? "STUCK" : record.state;
  const word = abandoned ? "stuck" : record.state.toLowerCase();
  return h(`span.badge.${kind.toLowerCase()}`, {}, h("span", { "aria-hidden": "true" }, SIGNS[kind]), word);
}

/** A key or another name that somebody else chose; its spaces are part of it. */
export const name = (text) => h("bdi.name", { title: text }, text);

export const tenant = (text) => (text === "" ? h("span.none", {}, "none") : name(text));

/** The routes whose records have this scope. */
export function routesOf(scope, overview) {
  const own = (overview?.routes ?? []).filter((route) => route.scope === scope);
  return own.map((route) => `${route.methods.join(", ")} ${route.path}`);
}

/** What happened, and what a retry gets now. */
export function story(record, overview) {
  const lost = record.last_error ? ` (${record.last_error})` : "";
  switch (record.state) {
    case "UNKNOWN": {
      const mayRetry = (overview?.routes ?? []).some((route) => route.scope === record.scope && route.when_unknown === "retry");
      return {
        happened: record.last_error ? `Sent to the API; ${record.last_error}.` : "Sent to the API, and no answer came back.",
        retries: mayRetry
          ? `This route allows it: a retry runs it again ${isPast(record.next_retry_at) ? "now" : relative(record.next_retry_at)}.`
          : "Retries get 409 outcome-unknown until somebody settles it.",
      };
    }
    case "PROCESSING":
      return isRunning(record)
        ? { happened: "It runs now, under its lease.", retries: "Retries wait for its answer, or get 409 in-progress." }
        : { happened: "It began, its lease ran out, and nobody said how it ended: its gateway may have died.", retries: "Retries get 409 until it is settled." };
    case "SUCCEEDED": {
      const stored = record.response?.body_stored !== false;
      return {
        happened: `Done: the API answered ${record.response?.status ?? "something"}.`,
        retries: stored ? "Retries get the stored answer." : "The answer is not stored: retries get 409 response-not-stored.",
      };
    }
    default: {
      const retries = {
        execute: record.next_retry_at && !isPast(record.next_retry_at) ? `A retry runs it again ${relative(record.next_retry_at)}; earlier ones get 409.` : "A retry runs it again.",
        replay: `Retries get the stored answer, ${record.response?.status ?? ""}.`,
        refuse: "Retries get 409 attempt-failed.",
      };
      return { happened: `It failed${lost}.`, retries: retries[record.retries] ?? "" };
    }
  }
}

/** Where a record is shown on this page. */
export function address(record) {
  return `#record?${new URLSearchParams({ tenant: record.tenant, scope: record.scope, key: record.key })}`;
}
