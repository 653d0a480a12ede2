// What the scenarios share: calls that are checked, thresholds that decide, and a report.
//
// Every scenario ends with the one question that matters: did the upstream execute exactly as
// many calls as there were distinct keys, and none of them twice?
import http from 'k6/http';
import exec from 'k6/execution';
import { check } from 'k6';
import { Counter, Gauge } from 'k6/metrics';

export const GATEWAY = __ENV.GATEWAY;
const UPSTREAM = __ENV.UPSTREAM;
export const SMOKE = __ENV.SMOKE === '1';

const outcomes = {};
for (const word of ['executed', 'replayed', 'in_progress', 'key_reused', 'untouched', 'other']) {
  outcomes[word] = new Counter(`outcome_${word}`);
}
const firsts = new Counter('distinct_keys');
const ledger = new Counter('wrong_ledger');
const executions = new Gauge('upstream_executions');

// A full run and its taste: [rate a second, length].
export function steady(rate, duration) {
  return {
    executor: 'constant-arrival-rate', rate: SMOKE ? Math.min(rate, 100) : rate, timeUnit: '1s',
    duration: SMOKE ? '3s' : duration, preAllocatedVUs: SMOKE ? 20 : 100, maxVUs: SMOKE ? 100 : 400, gracefulStop: '15s',
  };
}

// Latency is judged in full runs only: a taste runs beside other work.
export function options(scenario, more = {}, p95 = 250) {
  const thresholds = { checks: ['rate==1'], wrong_ledger: ['count==0'], outcome_other: ['count==0'], ...more };
  if (!SMOKE) thresholds.http_req_duration = [`p(95)<${p95}`];
  return {
    scenarios: { [__ENV.SCENARIO]: scenario }, thresholds, setupTimeout: '30s', teardownTimeout: '60s',
    summaryTrendStats: ['med', 'p(95)', 'p(99)', 'max'], discardResponseBodies: false,
  };
}

// 409 and 503 are answers, too; whether they were expected is checked.
http.setResponseCallback(http.expectedStatuses({ min: 200, max: 299 }, 409, 503));

export function post(key, body = '{"amount":4200}', { path = '/v1/payments', ms = 0, tag = 'call' } = {}) {
  const answer = http.post(`${GATEWAY}${path}${ms ? `?ms=${ms}` : ''}`, body, {
    headers: { 'Content-Type': 'application/json', ...(key ? { 'Idempotency-Key': key } : {}) },
    tags: { name: tag }, timeout: '20s',
  });
  return count(answer);
}

// Counts what an answer says.
export function count(answer) {
  const said = answer.headers['Idempotency-Status'] || (answer.status === 200 ? 'untouched' : 'other');
  const counter = outcomes[said.replace('-', '_')] || outcomes.other;
  counter.add(1);
  return { answer, said };
}

export function untouched() {
  return count(http.get(`${GATEWAY}/counted`, { tags: { name: 'untouched' } }));
}

// A key that nobody had before. Call it once for each operation that is sent.
export function freshKey() {
  firsts.add(1);
  return `${__ENV.SCENARIO}-${exec.vu.idInTest}-${exec.vu.iterationInScenario}-${Math.random().toString(36).slice(2)}`;
}

// One of a few keys that everybody knows; setup() is to execute each of them.
export function knownKeys(count) {
  return Array.from({ length: count }, (_, n) => `${__ENV.SCENARIO}-known-${n}`);
}

export function firstCalls(keys, options) {
  for (const key of keys) {
    firsts.add(1);
    expect(post(key, undefined, options), 'executed');
  }
  return keys;
}

export function expect({ answer, said }, ...wanted) {
  return check(answer, { [wanted.join(' or ')]: () => wanted.includes(said) });
}

// What the upstream has counted. The runner compares it with distinct_keys, which only the summary knows.
export function teardown() {
  const counted = http.get(`${UPSTREAM}/counted`, { tags: { name: 'ledger' } }).json();
  executions.add(counted.executions);
  if (counted.most > 1 || counted.executions !== counted.keys) ledger.add(1);
  check(counted, { 'no key was executed twice': (c) => c.most <= 1 && c.executions === c.keys });
}

export function handleSummary(data) {
  const m = (name, stat = 'count') => (data.metrics[name] ? data.metrics[name].values[stat] || 0 : 0);
  const failed = Object.entries(data.metrics).flatMap(([name, metric]) =>
    Object.entries(metric.thresholds || {}).filter(([, t]) => !t.ok).map(([rule]) => `${name} ${rule}`));
  const [keys, ran] = [m('distinct_keys'), m('upstream_executions', 'value')];
  const exact = keys === ran;
  const ms = (stat) => `${m('http_req_duration', stat).toFixed(1)} ms`;
  const words = Object.keys(outcomes).map((w) => [w, m(`outcome_${w}`)]).filter(([, n]) => n);
  const lines = [
    `${__ENV.SCENARIO}${SMOKE ? ' (a taste)' : ''}`,
    `  requests     ${m('http_reqs')} (${m('http_reqs', 'rate').toFixed(0)}/s), not sent for lack of clients: ${m('dropped_iterations')}`,
    `  answers      ${words.map(([w, n]) => `${w} ${n}`).join(', ')}`,
    `  durations    p50 ${ms('med')}, p95 ${ms('p(95)')}, p99 ${ms('p(99)')}, max ${ms('max')}`,
    `  executions   ${ran}, distinct keys ${keys}: ${exact ? 'exactly once each' : 'NOT THE SAME'}`,
    `  checks       ${m('checks', 'passes')} passed, ${m('checks', 'fails')} failed`,
    failed.length ? `  FAILED       ${failed.join('; ')}` : '  passed',
  ];
  // The runner reads this file: a threshold cannot compare two metrics.
  return { stdout: lines.join('\n') + '\n', [__ENV.LEDGER]: exact ? 'exact\n' : `${ran} executions, ${keys} keys\n` };
}
