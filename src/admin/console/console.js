// The console: asks the API every few seconds while somebody looks, and shows what it says.

import { ask, Away, Refused, token } from "./api.js";
import { drawAttention, fetchAttention } from "./attention.js";
import { start as startChanges } from "./changes.js";
import { byId, h, setText, show } from "./dom.js";
import { number, tick } from "./format.js";
import { draw, forgetSamples } from "./overview.js";
import { drawRecord, fetchRecord, setRecord } from "./record.js";
import { addressOfForm, drawRecords, fetchRecords, setFilters, start as startRecords } from "./records.js";

const PACE = "oncegate.pace";
/** Lists are asked for less often than figures, unless the figures say that they changed. */
const LISTS_MS = 5000;

let overview = null;
let attention = [];
let view = "home";
let timer = null;
let polling = false;
let listsAt = -Infinity;
let openBefore = "";
let heardAt = null;
let signedOut = false;

const tell = (text) => setText(byId("told"), text);

async function look(everything) {
  overview = await ask("GET", "/api/overview");
  heardAt = performance.now();
  signedOut = false;
  show(byId("sign-in"), false);
  show(byId("desk"), true);
  show(byId("sign-out"), token.get() !== null);
  draw(overview);
  const open = JSON.stringify(overview.records && [overview.records.unknown, overview.records.stuck, overview.records.processing]);
  if (overview.records && (everything || open !== openBefore || performance.now() - listsAt >= LISTS_MS)) {
    await lookAtLists();
    openBefore = open;
    listsAt = performance.now();
  }
  settleTrouble();
}

async function lookAtLists() {
  if (view === "record") {
    await fetchRecord();
    drawRecord(overview);
    return;
  }
  const before = attention.length;
  attention = await fetchAttention(overview);
  drawAttention(attention, overview);
  // For those who do not see the list grow.
  if (attention.length > before && listsAt > 0) setText(byId("news"), `${number(attention.length)} records need somebody.`);
  await fetchRecords();
  drawRecords(overview);
}

/** What is wrong right now, above everything else. */
function settleTrouble(error = null) {
  const trouble = byId("trouble");
  let said = [];
  if (error instanceof Away) {
    said = ["The gateway does not answer.", `${error.message} What is shown is from before; it is tried again.`];
  } else if (error instanceof Refused) {
    said = [`${error.title}.`, error.message];
  } else if (error !== null) {
    said = ["The console has a mistake.", `${error.message}; please report it.`];
    console.error(error);
  } else if (overview?.tiers.durable.up === false) {
    said = ["The durable tier is down.", "Requests with a key are refused with 503 (or forwarded unprotected, where durable.when_down = “bypass”), and records cannot be read, until it answers again."];
  } else if (overview?.tiers.fast.up === false) {
    said = ["The fast tier is down.", "The gateway carries on with the durable tier alone; answers are slower, and nothing runs twice."];
  }
  const text = said.join(" ");
  if (trouble.textContent !== text) trouble.replaceChildren(...(said.length ? [h("b", {}, said[0]), ` ${said[1]}`] : []));
  show(trouble, said.length > 0);
}

async function poll(everything = false) {
  if (polling || (signedOut && token.get() === null)) return;
  polling = true;
  clearTimeout(timer);
  try {
    await look(everything);
  } catch (error) {
    if (error instanceof Refused && error.status === 401) askForToken(error);
    else settleTrouble(error);
  }
  polling = false;
  tickFreshness();
  schedule();
}

const pace = () => Number(byId("pace").value) * 1000;

function schedule() {
  clearTimeout(timer);
  if (!signedOut && !document.hidden && pace() > 0) timer = setTimeout(poll, pace());
}

/** Waits for a look that is under way, and looks again. */
async function refresh() {
  while (polling) await new Promise((done) => setTimeout(done, 20));
  await poll(true);
}

function askForToken(error) {
  signedOut = true;
  overview = null;
  clearTimeout(timer);
  forgetSamples();
  const wrong = error?.code === "token-wrong";
  token.set(null);
  settleTrouble();
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  for (const id of ["attention-list", "records-list", "record-body"]) Object.assign(byId(id), { drawn: null }).replaceChildren();
  setText(byId("about"), "");
  byId("tiers").replaceChildren();
  byId("tiers").drawn = null;
  show(byId("desk"), false);
  show(byId("sign-out"), false);
  show(byId("sign-in"), true);
  setText(byId("sign-in-error"), wrong ? "This is not the right token. It is admin.token, or admin.read_token, of the gateway’s configuration." : "");
  byId("token").toggleAttribute("aria-invalid", wrong);
  byId("token").value = "";
  byId("token").focus();
}

async function signIn(event) {
  event.preventDefault();
  const typed = byId("token").value.trim();
  if (typed === "") {
    setText(byId("sign-in-error"), "Type the token first.");
    byId("token").focus();
    return;
  }
  token.set(typed);
  await refresh();
  if (!signedOut && !byId("desk").hidden) {
    byId("token").value = "";
    byId("main").focus();
  }
}

/** The address behind # says what is looked at, so that it can be kept and passed on. */
async function go() {
  const [place, query] = location.hash.slice(1).split(/\?(.*)/s);
  // Where the link for keyboards leads: a place on the page, not another page.
  if (place === "main" && overview !== null) return;
  const search = new URLSearchParams(query ?? "");
  const before = view;
  view = place === "record" ? "record" : "home";
  document.title = view === "record" ? `${search.get("key")} · oncegate` : "oncegate";
  document.body.classList.toggle("on-record", view === "record");
  show(byId("home"), view === "home");
  show(byId("record"), view === "record");
  if (view === "record") setRecord(search);
  else setFilters(search);
  tell("");
  await refresh();
  if (view === "record") byId("record-heading").focus();
  else if (place === "records" || before === "record") byId("records-heading").focus();
}

function tickFreshness() {
  tick();
  const paused = pace() === 0;
  const age = heardAt === null ? null : Math.round((performance.now() - heardAt) / 1000);
  setText(byId("freshness"), signedOut || age === null ? "" : paused ? `paused, as of ${age} s ago` : age > 3 ? `as of ${age} s ago` : "live");
}

function start() {
  try { byId("pace").value = localStorage.getItem(PACE) ?? "2"; } catch { byId("pace").value = "2"; }
  if (byId("pace").value === "") byId("pace").value = "2";
  byId("pace").addEventListener("change", () => {
    try { localStorage.setItem(PACE, byId("pace").value); } catch { /* Then it is forgotten. */ }
    tickFreshness();
    schedule();
  });
  byId("sign-in-form").addEventListener("submit", signIn);
  byId("sign-out").addEventListener("click", () => askForToken(null));
  byId("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const to = addressOfForm();
    if (location.hash === to || (to === "#" && location.hash === "")) go();
    else location.hash = to;
  });
  byId("search").addEventListener("reset", () => { location.hash = "#"; });
  startRecords(refresh);
  startChanges(async (told) => {
    await refresh();
    tell(told);
    byId("record-heading").focus();
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : poll(true)));
  window.addEventListener("hashchange", go);
  setInterval(() => { if (!document.hidden) tickFreshness(); }, 1000);
  go();
}

start();
