// Keys reused for other requests: always refused, and the stored answer stays what it was.
import { check } from 'k6';
import { expect, freshKey, options as make, post, steady, teardown, handleSummary } from './lib.js';
export { teardown, handleSummary };
export const options = make(steady(150, '30s'), { outcome_key_reused: ['count>50'] });

export default function () {
  const key = freshKey();
  const first = post(key);
  expect(first, 'executed');
  expect(post(key, '{"amount":9999}'), 'key-reused');
  const again = post(key);
  expect(again, 'replayed');
  check(again.answer, { 'byte for byte': (answer) => answer.body === first.answer.body });
}
