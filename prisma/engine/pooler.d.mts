import type pg from 'pg';

/** Why {@link sharesServers} is an error. */
export const SHARED_SERVERS: string;

/** Whether a URL leads to a pooler that gives its clients server connections for a transaction or a statement at a time. */
export function sharesServers(connect: () => Promise<pg.Client>): Promise<boolean>;
