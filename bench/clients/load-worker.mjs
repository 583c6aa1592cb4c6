// The process of the load client: executes runs on request.
import { loadRun } from './load-run.mjs';

process.on('message', (spec) => {
  loadRun(spec, (event) => process.send({ event })).then(
    (result) => process.send({ result }),
    (error) => process.send({ error: String(error) }),
  );
});
