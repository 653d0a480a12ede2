// A retry storm on a few keys that are done: every answer is a replay, the upstream hears nothing.
import { expect, firstCalls, knownKeys, options as make, post, steady, teardown, handleSummary } from './lib.js';
export { teardown, handleSummary };
export const options = make(steady(1500, '30s'), { outcome_replayed: ['count>100'] }, 100);

export const setup = () => firstCalls(knownKeys(10));

export default function (keys) {
  expect(post(keys[Math.floor(Math.random() * keys.length)]), 'replayed');
}
