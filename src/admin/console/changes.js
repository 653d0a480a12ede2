// The two things an operator may do to a record, each in a dialog that says what follows.

import { ask, Away } from "./api.js";
import { byId, setText } from "./dom.js";
import { name } from "./words.js";

const WORDS = {
  succeeded: ["Settle as succeeded", "Settled as succeeded.", "This cannot be undone: what has succeeded can only be forgotten."],
  failed: ["Settle as failed", "Settled as failed: retries are refused.", "Clients are told that it failed. It can still be settled otherwise, until it expires."],
  retry: ["Allow a retry", "A retry may run it now.", "If it did happen, it will happen twice. Nothing else in this gateway can do that."],
};

const FORGETTING = {
  SUCCEEDED: "It has run. Once forgotten, the next request with this key runs it a second time, and its stored answer is gone.",
  FAILED: "Its failure is forgotten in every tier and every instance. The next request with this key is a new one and runs.",
  other: "Nobody knows whether it has run. Once forgotten, the next request with this key runs it, perhaps for the second time. To settle it is safer.",
};

let record = null;
let changed = () => {};

const chosen = () => byId("settle-form").elements.outcome.value;

export function openSettle(of) {
  open("settle", of);
  drawChoice();
  byId("settle-form").elements.outcome[0].focus();
}

export function openForget(of) {
  open("forget", of);
  setText(byId("forget-warning"), FORGETTING[of.state] ?? FORGETTING.other);
  byId("forget-note").focus();
}

function open(id, of) {
  record = of;
  byId(`${id}-form`).reset();
  complain(id, "");
  const whose = of.tenant === "" ? [] : [", tenant ", name(of.tenant)];
  byId(id).querySelector(".subject").replaceChildren(name(of.key), ", scope ", name(of.scope), ...whose);
  byId(id).showModal();
}

/** Says what is wrong, at the field that it is about. */
function complain(id, text, field = null) {
  setText(byId(`${id}-error`), text);
  for (const marked of byId(id).querySelectorAll("[aria-invalid]")) marked.removeAttribute("aria-invalid");
  if (field !== null) {
    field.setAttribute("aria-invalid", "true");
    field.focus();
  }
}

function drawChoice() {
  const outcome = chosen();
  byId("answer").hidden = outcome !== "succeeded";
  byId("answer-fields").hidden = byId("no-answer").checked;
  const [label, , warning] = WORDS[outcome];
  setText(byId("settle-confirm"), label);
  setText(byId("settle-warning"), warning);
  byId("settle-confirm").className = outcome === "retry" ? "destructive" : "primary";
}

/** Pairs, or which line is none. */
function headers(text) {
  const pairs = [];
  for (const [index, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const colon = line.indexOf(":");
    if (colon < 1) return { wrong: `Line ${index + 1} of the headers has no “Name: value”.` };
    pairs.push([line.slice(0, colon).trim(), line.slice(colon + 1).trim()]);
  }
  return { pairs };
}

/** The answer of the form; undefined: there is none to give. A mistake is told and thrown. */
function given() {
  if (chosen() !== "succeeded" || byId("no-answer").checked) return undefined;
  const status = Number(byId("answer-status").value);
  if (!Number.isInteger(status) || status < 200 || status > 599) throw new Mistake("The status is a number from 200 to 599.", byId("answer-status"));
  const { pairs, wrong } = headers(byId("answer-headers").value);
  if (wrong) throw new Mistake(wrong, byId("answer-headers"));
  return { status, headers: pairs, body: byId("answer-body").value };
}

class Mistake extends Error {
  constructor(text, field) {
    super(text);
    this.field = field;
  }
}

function note(id) {
  const field = byId(`${id}-note`);
  if (field.value.trim() === "") throw new Mistake("Say why, for whoever reads the audit trail later.", field);
  return field.value.trim();
}

async function submit(id, act) {
  const confirm = byId(id).querySelector("[type=submit]");
  if (confirm.disabled) return;
  confirm.disabled = true;
  try {
    const told = await act();
    byId(id).close();
    await changed(told);
  } catch (error) {
    if (error instanceof Mistake) complain(id, error.message, error.field);
    else complain(id, error instanceof Away ? `The gateway does not answer. ${error.message} Look at the record again: it may have been done.` : `${error.title ?? "That went wrong"}. ${error.message}`);
  } finally {
    confirm.disabled = false;
  }
}

const settle = async () => {
  const outcome = chosen();
  const { tenant, scope, key } = record;
  const response = given();
  await ask("POST", "/api/record/resolve", { body: { tenant, scope, key, outcome, response, note: note("settle") } });
  return response ? `${WORDS[outcome][1]} Retries get ${response.status}.` : WORDS[outcome][1];
};

const forget = async () => {
  const { tenant, scope, key } = record;
  await ask("DELETE", "/api/record", { query: { tenant, scope, key, note: note("forget") } });
  return "Forgotten. The next request with this key is a new one.";
};

export function start(after) {
  changed = after;
  byId("settle-form").addEventListener("change", drawChoice);
  for (const [id, act] of [["settle", settle], ["forget", forget]]) {
    byId(`${id}-form`).addEventListener("submit", (event) => { event.preventDefault(); submit(id, act); });
    byId(id).querySelector("[data-close]").addEventListener("click", () => byId(id).close());
    byId(id).addEventListener("close", () => (byId(`open-${id}`) ?? byId("record-heading")).focus());
  }
}
