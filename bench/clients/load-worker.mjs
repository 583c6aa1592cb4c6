// The load client's process: carries out one run after the other as it is told.
import { loadRun } from './load-run.mjs';

process.on('message', (spec) => {
  loadRun(spec, (event) => process.send({ event })).then(
    (result) => process.send({ result }),
    (error) => process.send({ error: String(error) }),
  );
});
