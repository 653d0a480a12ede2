// Duplicates of calls that still run: one executes, the others are told so, or wait and replay.
import http from 'k6/http';
import { check } from 'k6';
import { GATEWAY, count, expect, freshKey, options as make, post, steady, teardown, handleSummary } from './lib.js';
export { teardown, handleSummary };
export const options = make(steady(20, '30s'), { outcome_replayed: ['count>10'] }, 1500);

export default function () {
  const key = freshKey();
  const same = {
    method: 'POST', url: `${GATEWAY}/v1/payments?ms=200`, body: '{"amount":4200}',
    params: { headers: { 'Content-Type': 'application/json', 'Idempotency-Key': key }, tags: { name: 'burst' } },
  };
  const said = http.batch([same, same, same, same]).map((answer) => count(answer).said);
  check(said, {
    'one of them executed': (all) => all.filter((word) => word === 'executed').length === 1,
    'the others did not': (all) => all.every((word) => ['executed', 'in-progress', 'replayed'].includes(word)),
  });
  expect(post(key, undefined, { ms: 200 }), 'replayed');
}
