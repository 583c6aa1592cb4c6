// The list client's process: reads lists as it is told.
import { listRun } from './list-run.mjs';

process.on('message', (spec) => {
  listRun(spec).then(
    (result) => process.send({ result }),
    (error) => process.send({ error: String(error) }),
  );
});
