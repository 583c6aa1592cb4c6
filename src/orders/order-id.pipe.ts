import { Injectable, type PipeTransform } from '@nestjs/common';
import { DomainError } from '../errors/domain-error.js';
import { parseOrderId } from './order-id.js';

/** Reads the path parameter `orderId`. Not `ParseIntPipe`, which reads 9007199254740993 as 9007199254740992, the id of another order. */
@Injectable()
export class OrderIdPipe implements PipeTransform<string, bigint> {
  /** @throws {DomainError} `invalid_order_id` */
  transform(text: string): bigint {
    const id = parseOrderId(text);
    if (id === undefined) {
      throw new DomainError('invalid_order_id');
    }
    return id;
  }
}
