// Steady first calls: each with a key of its own, each executed, stored and answered.
import { expect, freshKey, options as make, post, steady, teardown, handleSummary } from './lib.js';
export { teardown, handleSummary };
export const options = make(steady(500, '30s'));

export default function () {
  expect(post(freshKey()), 'executed');
}
