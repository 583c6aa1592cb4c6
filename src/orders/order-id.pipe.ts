import { Injectable, type PipeTransform } from '@nestjs/common';
import { DomainError } from '../errors/domain-error.js';
import { parseOrderId } from './order-id.js';

@Injectable()
export class OrderIdPipe implements PipeTransform<string, bigint> {
  /** @throws {DomainError} `invalid_order_id` */
  transform(text: string): bigint {
    const id = parseOrderId(text);
    if (id === undefined) {
      throw new DomainError(
        'invalid_order_id',
        'The order id must be a decimal integer from -9223372036854775808 to 9223372036854775807, without leading zeros.',
      );
    }
    return id;
  }
}
