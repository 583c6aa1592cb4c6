// Preloaded with NODE_OPTIONS by a process that may reach nothing but 127.0.0.1:$ALLOWED_PORT. Everything else fails, and is appended to
// the file $ATTEMPTS.
import dgram from 'node:dgram';
import dns from 'node:dns';
import { appendFileSync } from 'node:fs';
import { Socket } from 'node:net';

const { ALLOWED_PORT, ATTEMPTS } = process.env;

/** @param {string} target @returns {NodeJS.ErrnoException} */
function unreachable(target) {
  appendFileSync(ATTEMPTS, `${target}\n`);
  return Object.assign(new Error(`connect ENETUNREACH ${target}`), { code: 'ENETUNREACH', errno: -101 });
}

const { connect } = Socket.prototype;
/** @this {Socket} @param {any[]} args as `net.connect`, which passes them on in an array of its own */
Socket.prototype.connect = function (...args) {
  const [first, second] = Array.isArray(args[0]) ? args[0] : args;
  const { port, host, path } = typeof first === 'object' ? first : { port: first, host: second };
  if (typeof path === 'string' || (host === '127.0.0.1' && String(port) === ALLOWED_PORT)) {
    return connect.apply(this, args);
  }
  process.nextTick(() => this.destroy(unreachable(`${host}:${port}`)));
  return this;
};

for (const resolver of [dns, dns.promises]) {
  for (const name of Object.keys(resolver).filter((name) => /^(?:lookup|resolve)/.test(name))) {
    resolver[name] = (hostname, ...rest) => {
      const error = unreachable(hostname);
      const callback = rest.at(-1);
      return typeof callback === 'function' ? process.nextTick(callback, error) : Promise.reject(error);
    };
  }
}

dgram.Socket.prototype.send = () => {
  throw unreachable('a datagram');
};
