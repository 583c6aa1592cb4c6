import {
  FASTIFY_BEHIND_PROXY,
  FASTIFY_JSON,
  FASTIFY_PG,
  FASTIFY_STREAM,
  FASTIFY_STREAM_TEXT,
  FASTIFY_UNCOUNTED,
  GO_PGX,
  NEST_PG,
  NEST_PRISMA,
  NEST_PRISMA_CACHED_KEY,
  OWN,
  OWN_BEHIND_PROXY,
  OWN_LOGGING,
  OWN_WITHOUT_DATABASE,
} from '../contestants/contestants.mjs';
import { CONNECTIONS, MAIN_CONNECTIONS } from '../scenarios/cancel.mjs';
import { FLOOD_PER_SECOND } from '../scenarios/flood.mjs';
import { listSizes, MANY_READERS, MANY_READERS_ORDERS, PSQL, PSQL_ALONE } from '../scenarios/list.mjs';
import { CANCELS_PER_SECOND, ENCODINGS, PEERS } from '../scenarios/list-changes.mjs';
import { POLL_CONNECTIONS, pollSizes } from '../scenarios/polls.mjs';
import { above, atLeast, atMost, below, valueAtMost } from './table.mjs';

const MEBIBYTE = 1_048_576;
/** The table size that the targets of the list apply to. */
const TARGET_ORDERS = 1_000_000;
const OF_OURS = 'theirs / ours';
const OF_THEIRS = 'ours / theirs';

const count = (number) => number.toLocaleString('en');
const orders = (size) => `${count(size)} ${size === 1 ? 'order' : 'orders'}`;

/** Every line of the report, by scenario. A line has a target only if one is set for the measured size. */
export const ROWS = { list, changes, polls, cancel, rejections, flood, start };

function list(results, options) {
  const rows = [];
  for (const size of listSizes(options)) {
    const isTarget = size === TARGET_ORDERS;
    const of = (target) => (isTarget ? { target } : {});
    const wall = compare(results, `list/${size}/wallMs`, OWN, `list of ${orders(size)}, wall`, 'ms');
    rows.push(
      wall(PSQL, OF_THEIRS, of(atMost(1.25))),
      wall(PSQL_ALONE, undefined),
      wall(FASTIFY_STREAM, OF_OURS, of(atLeast(1.6))),
      wall(FASTIFY_STREAM_TEXT, OF_OURS, of(atLeast(1.6))),
      wall(FASTIFY_JSON, OF_OURS, of(atLeast(8))),
      wall(NEST_PRISMA, OF_OURS, of(atLeast(8))),
      wall(NEST_PG, OF_OURS),
      wall(GO_PGX, OF_OURS),
    );
    const firstByte = `list/${size}/firstByteMs`;
    rows.push({
      what: `list of ${orders(size)}, first byte`,
      unit: 'ms',
      ours: results.get(firstByte, OWN),
      against: FASTIFY_STREAM.name,
      other: results.get(firstByte, FASTIFY_STREAM),
      ...of(valueAtMost(20, '20 ms')),
    });
  }
  const large = options.orders;
  for (const other of [FASTIFY_STREAM, FASTIFY_STREAM_TEXT, FASTIFY_JSON, NEST_PRISMA]) {
    rows.push({
      what: `list of ${orders(large)}, peak memory over idle`,
      unit: 'mib',
      ours: results.get(`list/${large}/peakOverIdleBytes`, OWN),
      against: other.name,
      other: results.get(`list/${large}/peakOverIdleBytes`, other),
      ...(large === TARGET_ORDERS && other === FASTIFY_STREAM ? { target: valueAtMost(40 * MEBIBYTE, '40 MiB') } : {}),
    });
  }
  const many = Math.min(MANY_READERS_ORDERS, large);
  const readers = compare(
    results,
    `list/${many}/readers/wallMs`,
    OWN,
    `${MANY_READERS} readers at once, ${orders(many)}, wall`,
    'ms',
  );
  const target = many === MANY_READERS_ORDERS ? { target: atLeast(1.6) } : {};
  rows.push(
    readers(FASTIFY_STREAM, OF_OURS, target),
    readers(FASTIFY_STREAM_TEXT, OF_OURS, target),
    readers(FASTIFY_JSON, OF_OURS),
    readers(NEST_PRISMA, OF_OURS),
  );
  return rows;
}

/** How the report names the changes right before a list. */
const STATES = {
  nothing: 'unchanged',
  insert: 'after one insert',
  update: 'after one update',
  cancel: 'after one cancel',
  everything: 'all blocks outdated',
};
const OF_COPY = {
  gzip: { nothing: 0.03, insert: 0.2 },
  plain: { nothing: 0.35, everything: 1.3 },
};
const CPU_MS_UNCHANGED = 40;
/** What a default cache may add to the idle memory. */
const CACHE_AND_MORE_BYTES = (64 + 40) * MEBIBYTE;

function changes(results, options) {
  const isTarget = options.orders === TARGET_ORDERS;
  const rows = [];
  for (const encoding of ENCODINGS) {
    const peer = PEERS[encoding];
    const theirs = results.get(`changes/${encoding}/wallMs`, peer);
    for (const [change, state] of Object.entries(STATES)) {
      const what = `list of ${orders(options.orders)}, ${encoding}, ${state}`;
      const ours = results.get(`changes/${encoding}/${change}/wallMs`, OWN);
      const limit = OF_COPY[encoding][change];
      const target = isTarget && limit !== undefined ? { target: atMost(limit) } : {};
      const copy = results.get('changes/copy/wallMs', PSQL);
      rows.push(
        {
          what,
          unit: 'ms',
          ours,
          against: PSQL.name,
          other: copy,
          ratio: OF_THEIRS,
          isPromise: change === 'nothing',
          ...target,
        },
        { what, unit: 'ms', ours, against: peer.name, other: theirs, ratio: OF_OURS },
        {
          what: `${what}, server CPU`,
          unit: 'ms',
          ours: results.get(`changes/${encoding}/${change}/serverCpuMs`, OWN),
          against: peer.name,
          other: results.get(`changes/${encoding}/serverCpuMs`, peer),
          ...(isTarget && encoding === 'gzip' && change === 'nothing'
            ? { target: valueAtMost(CPU_MS_UNCHANGED, `${CPU_MS_UNCHANGED} ms`) }
            : {}),
        },
      );
    }
  }
  const during = (what, name) => ({ what, unit: 'ms', ours: results.get(name, OWN) });
  rows.push(
    {
      what: `list of ${orders(options.orders)}, peak memory over idle, after four lists`,
      unit: 'mib',
      ours: results.get('changes/peakOverIdleBytes', OWN),
      target: valueAtMost(CACHE_AND_MORE_BYTES, '104 MiB'),
    },
    {
      ...during(`unchanged gzip list during ${count(CANCELS_PER_SECOND)} cancels/s`, 'changes/cancelling/wallMs'),
      against: 'the same without cancels',
      other: results.get('changes/calm/wallMs', OWN),
      ratio: OF_THEIRS,
    },
    { what: 'cancels during these lists', unit: 'perSecond', ours: results.get('changes/cancelling/perSecond', OWN) },
  );
  return rows;
}

function polls(results, options) {
  const [small, large = small] = pollSizes(options);
  const rate = (size) => results.get(`polls/${size}/perSecond`, OWN);
  const what = `polls with 304, ${POLL_CONNECTIONS} connections`;
  const row = { what: `${what}, ${orders(large)}`, unit: 'perSecond', ours: rate(large), ratio: OF_THEIRS };
  return [
    { ...row, against: `this service, ${orders(small)}`, other: rate(small), target: atLeast(0.9) },
    {
      ...row,
      against: `its own cancels, ${MAIN_CONNECTIONS} connections`,
      other: results.get(`cancel/${MAIN_CONNECTIONS}/perSecond`, OWN),
      target: atLeast(1),
    },
  ];
}

const TIMES_FASTIFY = { 1: 0.85, 16: 1, 64: 1.15, 256: 1.3 };
const TIMES_NEST = 6;

function cancel(results) {
  const rows = CONNECTIONS.flatMap((connections) => {
    const named = (metric, what, unit) =>
      compare(results, `cancel/${connections}/${metric}`, OWN, `cancel, ${connections} connections, ${what}`, unit);
    const rate = named('perSecond', 'rate', 'perSecond');
    return [
      rate(FASTIFY_PG, OF_THEIRS, { target: atLeast(TIMES_FASTIFY[connections]) }),
      rate(OWN_LOGGING, OF_OURS),
      rate(NEST_PG, OF_THEIRS),
      rate(GO_PGX, OF_THEIRS),
      rate(NEST_PRISMA, OF_THEIRS, connections === MAIN_CONNECTIONS ? { target: atLeast(TIMES_NEST) } : {}),
      ...(connections === MAIN_CONNECTIONS
        ? [rate(NEST_PRISMA_CACHED_KEY, OF_THEIRS), rate(OWN_WITHOUT_DATABASE, OF_THEIRS, { target: atLeast(0.8) })]
        : []),
      named('p50Ms', 'p50', 'ms')(FASTIFY_PG, OF_THEIRS),
      named('p99Ms', 'p99', 'ms')(FASTIFY_PG, OF_THEIRS, { target: atMost(1) }),
      named('serverCpuMicros', 'server CPU each', 'micros')(FASTIFY_PG, OF_THEIRS),
    ];
  });
  for (const connections of CONNECTIONS) {
    const cpu = compare(
      results,
      `cancel/${connections}/postgresCpuSecondsPer1000`,
      OWN,
      `cancel, ${connections} connections, PostgreSQL CPU per 1,000`,
      'seconds',
    );
    const target = { target: below(1) };
    rows.push(cpu(FASTIFY_PG, OF_THEIRS, target), cpu(NEST_PRISMA, OF_THEIRS, target));
  }
  return rows;
}

function rejections(results) {
  const of = (name, what) => compare(results, `rejections/${name}`, OWN_BEHIND_PROXY, what, 'perSecond');
  const rows = [];
  for (const [name, what, peers] of [
    ['limited', '429, key over its limit', [FASTIFY_BEHIND_PROXY]],
    ['unknownFromMany', '401, unknown key, each time from another address', [FASTIFY_BEHIND_PROXY, FASTIFY_UNCOUNTED]],
    ['unknownFromOne', '401 then 429, unknown key from one address', [FASTIFY_BEHIND_PROXY, FASTIFY_UNCOUNTED]],
  ]) {
    for (const peer of peers) {
      // Without counting and headers this peer does less than the interface requires, so there is no target.
      const target = peer === FASTIFY_UNCOUNTED ? {} : { target: above(1) };
      rows.push(of(`${name}/perSecond`, what)(peer, OF_THEIRS, target));
    }
    for (const [metric, label, unit] of [
      ['serverCpuMicros', 'server CPU each', 'micros'],
      ['clientCpuShare', 'client CPU, of one core', 'share'],
    ]) {
      for (const peer of peers) {
        rows.push(compare(results, `rejections/${name}/${metric}`, OWN_BEHIND_PROXY, `${what}, ${label}`, unit)(peer));
      }
    }
  }
  return rows;
}

function flood(results) {
  return [OWN, FASTIFY_PG].map((contestant) => ({
    what: `cancel during ${count(FLOOD_PER_SECOND)} rejections/s${contestant === OWN ? '' : ` (${contestant.name})`}`,
    unit: 'perSecond',
    ours: results.get('flood/flooded/perSecond', contestant),
    against: 'the same without the flood',
    other: results.get('flood/calm/perSecond', contestant),
    ratio: OF_THEIRS,
    ...(contestant === OWN ? { target: atLeast(0.8) } : {}),
  }));
}

function start(results) {
  const first = compare(results, 'start/firstResponseMs', OWN, 'start to first response', 'ms');
  const idle = compare(results, 'start/idleBytes', OWN, 'idle memory', 'mib');
  return [first(FASTIFY_PG), first(NEST_PRISMA), idle(FASTIFY_PG), idle(NEST_PRISMA)];
}

/** Builds lines that compare one value of this service with that of others. */
function compare(results, name, own, what, unit) {
  return (other, ratio, more = {}) => ({
    what,
    unit,
    ours: results.get(name, own),
    against: other.name,
    other: results.get(name, other),
    ...(ratio === undefined ? {} : { ratio }),
    ...more,
  });
}
