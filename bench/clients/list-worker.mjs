// The process of the list client: executes runs on request.
import { listRun } from './list-run.mjs';

process.on('message', (spec) => {
  listRun(spec).then(
    (result) => process.send({ result }),
    (error) => process.send({ error: String(error) }),
  );
});
