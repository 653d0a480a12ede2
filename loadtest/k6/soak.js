// Hours of ordinary traffic: memory and durations are to stay where they were. SOAK=2h sets the length.
import { options as make, steady } from './lib.js';
import mixed from './mixed.js';
export { setup, teardown, handleSummary } from './mixed.js';
export const options = make(steady(200, __ENV.SOAK || '15m'));

export default mixed;
