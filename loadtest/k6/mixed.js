// Traffic as it comes: mostly first calls, some retries, a few mistakes, and much that is untouched.
import { expect, firstCalls, freshKey, knownKeys, options as make, post, steady, teardown, untouched, handleSummary } from './lib.js';
export { teardown, handleSummary };
export const options = make(steady(800, '60s'));

export const setup = () => firstCalls(knownKeys(50));

export default function (keys) {
  const known = keys[Math.floor(Math.random() * keys.length)];
  const dice = Math.random();
  if (dice < 0.5) expect(post(freshKey()), 'executed');
  else if (dice < 0.7) expect(post(known), 'replayed');
  else if (dice < 0.75) expect(post(known, '{"amount":1}'), 'key-reused');
  else expect(untouched(), 'untouched');
}
