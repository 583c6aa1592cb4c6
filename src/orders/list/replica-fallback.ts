import { Injectable } from '@nestjs/common';
import { type ListPools, Pools } from '../../database/pools.js';
import { DomainError } from '../../errors/domain-error.js';
import { ListReplica } from './list-replica.js';

/** The server that a list is read from: the replica while it is available, otherwise the primary. */
@Injectable()
export class ReplicaFallback {
  constructor(
    private readonly pools: Pools,
    private readonly replica: ListReplica,
  ) {}

  /** The server that is read from first. */
  get first(): ListPools {
    return this.replica.available ?? this.pools;
  }

  /**
   * Reads from one server, and again from the primary when the replica fails.
   * @param read may run twice; gets the errors of the database as they are
   */
  async read<T>(read: (pools: ListPools) => Promise<T>): Promise<T> {
    const { available } = this.replica;
    if (available !== undefined) {
      try {
        return await read(available);
      } catch (error) {
        if (error instanceof DomainError) {
          // Too many lists are being read, whatever the server.
          throw error;
        }
        this.replica.reportFailure();
      }
    }
    return read(this.pools);
  }
}
