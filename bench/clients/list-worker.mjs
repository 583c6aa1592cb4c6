// The process of the list client: executes runs on request.
import { compressedListRun } from './compressed-list-run.mjs';
import { listRun } from './list-run.mjs';

const RUNS = { plain: listRun, gzip: compressedListRun };

process.on('message', (spec) => {
  RUNS[spec.kind](spec).then(
    (result) => process.send({ result }),
    (error) => process.send({ error: String(error) }),
  );
});
