import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** A private certificate authority, as files in a folder. */
export class CertificateAuthority {
  /** Its certificate. */
  readonly file: string;

  constructor(
    private readonly folder: string,
    private readonly name: string,
  ) {
    this.file = join(folder, `${name}.crt`);
    this.#openssl('req', '-x509', ...this.#newKey(name), '-days', '2', '-subj', `/CN=${name}`, '-out', this.file);
  }

  /**
   * Issues a certificate.
   * @returns the paths of the certificate and its key
   */
  issue(commonName: string, { hosts = '' } = {}): { certificate: string; key: string } {
    const name = `${this.name}-${commonName}`;
    const [request, certificate, extensions] = ['csr', 'crt', 'ext'].map((type) =>
      join(this.folder, `${name}.${type}`),
    );
    this.#openssl('req', ...this.#newKey(name), '-subj', `/CN=${commonName}`, '-out', request!);
    writeFileSync(extensions!, hosts === '' ? '' : `subjectAltName=${hosts}\n`);
    this.#openssl(
      ...['x509', '-req', '-in', request!, '-CA', this.file, '-CAkey', this.file.replace('.crt', '.key')],
      ...['-CAcreateserial', '-days', '2', '-extfile', extensions!, '-out', certificate!],
    );
    return { certificate: certificate!, key: join(this.folder, `${name}.key`) };
  }

  #newKey(name: string): string[] {
    const key = join(this.folder, `${name}.key`);
    return ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', key];
  }

  #openssl(...args: readonly string[]): void {
    execFileSync('openssl', args, { stdio: 'pipe' });
  }
}
