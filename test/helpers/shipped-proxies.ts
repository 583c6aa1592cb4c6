import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CertificateAuthority } from './certificates.js';
import { describeIf } from './describe-if.js';
import { freePort } from './free-port.js';
import { Program } from './program.js';

const ROOT = join(__dirname, '..', '..');

export interface ShippedProxy {
  readonly name: string;
  /** The configuration file, relative to the repository. */
  readonly file: string;
  /** Whether the configuration terminates TLS. */
  readonly tls: boolean;
  /** What the file says about `SHUTDOWN_DELAY_SECONDS`. */
  readonly shutdownDelay: string;
  /**
   * Writes the configuration with other ports and files.
   * @returns the command that runs it
   */
  readonly command: (
    config: string,
    options: { folder: string; listen: number; metrics: number; upstreams: readonly number[] },
  ) => string[];
}

const NGINX: ShippedProxy = {
  name: 'nginx',
  file: 'deploy/proxies/nginx.conf',
  tls: true,
  shutdownDelay: '0',
  command: (config, { folder, listen, upstreams }) => {
    const site = withUpstreams(config, upstreams)
      .replace('listen 443', `listen 127.0.0.1:${listen}`)
      .replaceAll('/etc/ssl/api.example.com', folder);
    writeFileSync(join(folder, 'site.conf'), site);
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (name) => `${name}_temp_path ${folder}/${name};`,
    );
    writeFileSync(
      join(folder, 'nginx.conf'),
      `daemon off; pid ${folder}/nginx.pid; error_log stderr; events {}\n` +
        `http { access_log off; ${temporary.join(' ')} include ${folder}/site.conf; }\n`,
    );
    return ['nginx', '-e', 'stderr', '-p', folder, '-c', join(folder, 'nginx.conf')];
  },
};

const HAPROXY: ShippedProxy = {
  name: 'HAProxy',
  file: 'deploy/proxies/haproxy.cfg',
  tls: true,
  shutdownDelay: '5',
  command: (config, { folder, listen, metrics, upstreams }) =>
    haproxyCommand(
      withUpstreams(config, upstreams)
        // Exchanges the lines, as the file says.
        .replace(/^ {2}(bind :8080|server-template .*)\n/gm, '')
        .replace(/^ {2}# (?=bind|tcp-request|http-request|server )/gm, '  ')
        .replace(/^# (?=backend| {2}stick-table)/gm, '')
        .replace('bind :443', `bind 127.0.0.1:${listen}`)
        .replaceAll('/etc/ssl/api.example.com', folder),
      { folder, metrics },
    ),
};

/** As docker-compose.yml uses it, where it finds the replicas in the DNS of Docker. */
export const HAPROXY_OF_COMPOSE: ShippedProxy = {
  name: 'HAProxy of Compose',
  file: 'deploy/proxies/haproxy.cfg',
  tls: false,
  shutdownDelay: '5',
  command: (config, { folder, listen, metrics, upstreams }) =>
    haproxyCommand(
      config
        .replace('bind :8080', `bind 127.0.0.1:${listen}`)
        .replace(
          / {2}server-template .*/,
          upstreams.map((port, index) => `  server replica${index} 127.0.0.1:${port}`).join('\n'),
        ),
      { folder, metrics },
    ),
};

const CADDY: ShippedProxy = {
  name: 'Caddy',
  file: 'deploy/proxies/Caddyfile',
  tls: true,
  shutdownDelay: '5',
  command: (config, { folder, listen, upstreams }) => {
    const site = withUpstreams(config, upstreams).replace(
      'api.example.com {',
      `https://api.example.com:${listen} {\n\ttls ${folder}/cert.pem ${folder}/key.pem`,
    );
    writeFileSync(join(folder, 'Caddyfile'), `{\n\tadmin off\n\tauto_https disable_redirects\n}\n\n${site}`);
    return ['caddy', 'run', '--adapter', 'caddyfile', '--config', join(folder, 'Caddyfile')];
  },
};

/** Those for a service without containers. */
export const SHIPPED_PROXIES = [NGINX, HAPROXY, CADDY] as const;

/** `describe` where the proxy is installed. */
export function describeWithProxy({ name }: ShippedProxy): typeof describe {
  const program = name.toLowerCase().split(' ')[0]!;
  return describeIf(
    spawnSync('which', [program]).status === 0,
    `${program} (Debian: apt install ${program === 'nginx' ? 'nginx-light' : program})`,
  );
}

/** A real proxy with its shipped configuration on a port of 127.0.0.1. */
export class ProxyProcess extends Program {
  private constructor(
    command: readonly string[],
    readonly folder: string,
    readonly port: number,
    /** Where HAProxy exports its metrics. */
    readonly metricsPort: number,
  ) {
    super(command, { env: { ...process.env, HOME: folder, XDG_DATA_HOME: folder } });
  }

  /** Resolves before the proxy responds: the test waits for the response that it needs. */
  static async start(proxy: ShippedProxy, upstreams: readonly number[]): Promise<ProxyProcess> {
    const folder = mkdtempSync(join(tmpdir(), 'petstore-proxy-'));
    chmodSync(folder, 0o755);
    makeCertificate(folder);
    const [listen, metrics] = [await freePort(), await freePort()];
    const config = readFileSync(join(ROOT, proxy.file), 'utf8');
    const command = proxy.command(config, { folder, listen, metrics, upstreams });
    return new ProxyProcess(command, folder, listen, metrics);
  }

  /** That of the authority. */
  get certificate(): string {
    return join(this.folder, 'authority.crt');
  }

  override async stop(): Promise<number | null> {
    // nginx, which has a process of its own for the connections, ends them with SIGQUIT.
    const exitCode = await super.stop(this.child.spawnfile === 'nginx' ? 'SIGQUIT' : 'SIGTERM');
    rmSync(this.folder, { recursive: true, force: true });
    return exitCode;
  }
}

/** Replaces the ports of the three processes. */
function withUpstreams(config: string, upstreams: readonly number[]): string {
  return upstreams.reduce(
    (text, port, index) => text.replaceAll(`127.0.0.1:${3001 + index}`, `127.0.0.1:${port}`),
    config,
  );
}

function haproxyCommand(config: string, { folder, metrics }: { folder: string; metrics: number }): string[] {
  writeFileSync(join(folder, 'haproxy.cfg'), config.replace('bind :8405', `bind 127.0.0.1:${metrics}`));
  return ['haproxy', '-db', '-f', join(folder, 'haproxy.cfg')];
}

function makeCertificate(folder: string): void {
  const { certificate, key } = new CertificateAuthority(folder, 'authority').issue('proxy', {
    hosts: 'DNS:api.example.com',
  });
  copyFileSync(certificate, join(folder, 'cert.pem'));
  copyFileSync(key, join(folder, 'key.pem'));
  writeFileSync(join(folder, 'cert-and-key.pem'), readFileSync(certificate, 'utf8') + readFileSync(key, 'utf8'));
}
