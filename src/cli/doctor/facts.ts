import type { Config } from '../../config/config.js';
import { type Finding, notChecked } from './finding.js';

/** A fact that was collected, or the reason why it could not be. */
export type Known<T> = { readonly value: T } | Unknown;

export interface Unknown {
  /** A clause, such as `database unreachable`. */
  readonly reason: string;
  /** The finding of the check whose subject this is; the checks that depend on it are skipped for the reason. */
  readonly finding?: Finding;
}

/** Evaluates a fact, or skips the check when the fact is unknown. */
export function ifKnown<T>(fact: Known<T>, evaluate: (value: T) => Finding): Finding {
  return 'value' in fact ? evaluate(fact.value) : notChecked(fact.reason);
}

/** What the checks evaluate. Everything is collected without changing anything. */
export interface Facts {
  readonly configuration: ConfigurationFacts;
  readonly server: Known<ServerFacts>;
  readonly otherServers: readonly OtherServerFacts[];
  readonly schema: Known<SchemaFacts>;
  readonly role: Known<RoleFacts>;
  readonly expiringKeys: Known<ExpiringKeys>;
  readonly redis: Known<readonly RedisNodeFacts[]>;
  readonly endpoints: readonly EndpointFacts[];
  readonly port: Known<PortFacts>;
  readonly metricsPort: Known<PortFacts>;
  readonly disk: Known<DiskFacts>;
}

export interface ConfigurationFacts {
  readonly problems: readonly string[];
  /** The configuration without the invalid variables, which have their defaults. */
  readonly config: Config;
  readonly invalid: ReadonlySet<string>;
}

/** The PostgreSQL server and this connection to it. */
export interface ServerFacts {
  readonly address: string;
  readonly isEmbedded: boolean;
  readonly version: string;
  readonly versionNumber: number;
  readonly database: string;
  readonly isStandby: boolean;
  readonly isReadOnly: boolean;
  /** This host's clock minus the server's, in milliseconds. */
  readonly clockDifferenceMs: number;
  /** The smallest of the limits of server, database and role, without reserved connections. */
  readonly connectionLimit: number;
  /** Running processes of the service. */
  readonly processes: number;
  readonly isPooled: boolean;
  /** What the service rejects at its start: an old version, a pooler without the setting for it, an invalid certificate. */
  readonly startProblems: readonly string[];
}

/** Another server that the configuration names. */
export interface OtherServerFacts {
  readonly variable: string;
  readonly address: string;
  /** Undefined when it can be used. */
  readonly problem: string | undefined;
}

export interface SchemaFacts {
  /** The migrations recorded as applied; undefined when the role may not read the record. */
  readonly applied: readonly string[] | undefined;
  readonly failed: readonly string[];
  /** Migrations whose objects are not in the database. */
  readonly withoutObjects: readonly string[];
  readonly disabledTriggers: readonly string[];
  readonly hasRowSecurity: boolean;
}

/** The privileges of a role on a table. */
export interface TablePrivilege {
  readonly table: string;
  readonly privilege: string;
  /** On the whole table. */
  readonly whole: boolean;
  /** The columns that the privilege covers. */
  readonly columns: readonly string[];
}

export interface RoleFacts {
  readonly role: string;
  /** The role owns the tables or is a superuser. */
  readonly isOwner: boolean;
  readonly isEmbedded: boolean;
  readonly isMember: boolean;
  /** The role whose privileges these are: the service's, when the connection is the owner's. */
  readonly examined: string | undefined;
  /** Such as `CREATEROLE`. */
  readonly attributes: readonly string[];
  /** Memberships other than in the role of the service. */
  readonly memberships: readonly string[];
  readonly tables: readonly TablePrivilege[];
  readonly usesSchema: boolean;
  readonly createsInSchema: boolean;
}

export interface ExpiringKeys {
  readonly count: number;
  /** The first ones. */
  readonly keys: readonly { readonly id: string; readonly expiresAt: Date }[];
}

export interface RedisNodeFacts {
  readonly address: string;
  readonly clockDifferenceMs: number;
  readonly version: string;
  readonly isReplica: boolean;
  readonly evictionPolicy: string;
  /** 0: unlimited. */
  readonly memoryLimitBytes: number;
  readonly memoryUsedBytes: number;
  readonly hasAppendOnlyFile: boolean;
  /** Undefined when the user may not read it. */
  readonly hasSnapshots: boolean | undefined;
  readonly lastWriteFailed: boolean;
}

/** A server that the service connects to, or the address that clients use. */
export interface EndpointFacts {
  readonly name: string;
  readonly encryption: 'none' | 'unverified' | 'verified';
  /** On this host or in a private network. */
  readonly isNearby: boolean;
}

export interface PortFacts {
  readonly address: string;
  readonly listener: 'none' | 'service' | 'unready service' | 'other';
}

export interface DiskFacts {
  readonly folder: string;
  readonly freeBytes: number;
  readonly isWritable: boolean;
}
