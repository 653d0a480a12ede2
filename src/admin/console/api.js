// Talks to the admin API: one request at a time, with the token of this tab.

const TOKEN = "oncegate.token";
const PATIENCE_MS = 10_000;

/** The gateway answered, and the answer is no: `code`, `title` and `detail` say why. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail ?? `The gateway answered ${status}.`);
    this.status = status;
    this.code = problem.code ?? "";
    this.title = problem.title ?? `The gateway answered ${status}`;
    this.problem = problem;
  }
}

/** Nobody answered. */
export class Away extends Error {}

/** In the tab's own storage, or nowhere where that is forbidden. */
export const token = {
  kept: null,
  get() {
    try { return sessionStorage.getItem(TOKEN) ?? this.kept; } catch { return this.kept; }
  },
  set(value) {
    this.kept = value;
    try {
      if (value === null) sessionStorage.removeItem(TOKEN);
      else sessionStorage.setItem(TOKEN, value);
    } catch { /* It lives as long as the page. */ }
  },
};

let ahead = 0;

/** The database's clock, by which records are judged. */
export const now = () => Date.now() + ahead;

let last = Promise.resolve();

export function ask(method, path, { query = {}, body } = {}) {
  const asked = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const search = new URLSearchParams(asked).toString();
  const answered = last.then(() => send(method, search ? `${path}?${search}` : path, body));
  last = answered.catch(() => {});
  return answered;
}

async function send(method, url, body) {
  const headers = { Accept: "application/json" };
  const secret = token.get();
  if (secret !== null) headers.Authorization = `Bearer ${secret}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response, text;
  try {
    response = await fetch(url, {
      method, headers, body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store", credentials: "omit", redirect: "error", signal: AbortSignal.timeout(PATIENCE_MS),
    });
    text = await response.text();
  } catch (error) {
    throw new Away(error.name === "TimeoutError" ? `No answer within ${PATIENCE_MS / 1000} s.` : "The connection was refused or broke off.");
  }
  let answer;
  try { answer = JSON.parse(text); } catch { answer = {}; }
  if (!response.ok) throw new Refused(response.status, answer);
  if (answer.now) ahead = Date.parse(answer.now) - Date.now();
  return answer;
}
