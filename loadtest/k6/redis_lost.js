// Redis is killed in mid-test (loadtest/run does it) and comes back empty: answers may be slower or
// be told to come back, and nothing runs twice.
import http from 'k6/http';
import { check } from 'k6';
import { expect, freshKey, options as make, post, steady, teardown as ledger, handleSummary } from './lib.js';
export { handleSummary };
export const options = make(steady(200, '30s'), {}, 1000);

export default function () {
  const key = freshKey();
  let first = post(key);
  // A retry cures a refusal.
  for (let tries = 0; tries < 30 && first.said === 'in-progress'; tries += 1) first = post(key);
  expect(first, 'executed', 'replayed');
  expect(post(key), 'replayed', 'in-progress');
}

export function teardown() {
  ledger();
  const metrics = http.get(`${__ENV.ADMIN}/metrics`).body;
  check(metrics, { 'the loss was felt': (text) => /oncegate_tier_errors_total\{[^}]*tier="fast"/.test(text) });
}
