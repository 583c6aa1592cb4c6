import { DomainError } from '../errors/domain-error.js';
import { isTransientDatabaseError } from './postgres-errors.js';

/**
 * Runs a database operation and turns every failure that will pass (a server that is away, overloaded, shutting down, a
 * lock or statement that ran into its timeout) into `service_unavailable`. Other failures are defects and stay as they are.
 */
export async function databaseCall<T>(operation: () => PromiseLike<T>): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    throw databaseFailure(error);
  }
}

/** What a failure of the database means to a caller; see {@link databaseCall}. */
export function databaseFailure(error: unknown): unknown {
  return isTransientDatabaseError(error)
    ? new DomainError('service_unavailable', 'The service is briefly unavailable; try again in a moment.', {
        cause: error,
      })
    : error;
}
