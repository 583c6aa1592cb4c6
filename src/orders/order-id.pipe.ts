import { Injectable, type PipeTransform } from '@nestjs/common';
import { DomainError } from '../errors/domain-error.js';
import { parseOrderId } from './order-id.js';

/** Validates and parses the path parameter `orderId`. */
@Injectable()
export class OrderIdPipe implements PipeTransform<string, bigint> {
  /** @throws {DomainError} `invalid_order_id` */
  transform(text: string): bigint {
    const id = parseOrderId(text);
    if (id === undefined) {
      throw DomainError.of('invalid_order_id');
    }
    return id;
  }
}
