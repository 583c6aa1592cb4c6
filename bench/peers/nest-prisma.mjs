// The same interface on NestJS (Express), Prisma and ioredis as tutorials show it: `findMany` for the list, an interactive
// transaction with `SELECT … FOR UPDATE` for the cancel, a guard that looks the key up with Prisma and counts in Redis
// with MULTI. Plain JavaScript so that it runs without a build of its own; `decorate.mjs` replaces the decorators.
import { createHash } from 'node:crypto';
import { Controller, Delete, Get, HttpCode, HttpException, Injectable, Module, Param } from '@nestjs/common';
import { APP_GUARD, NestFactory } from '@nestjs/core';
import { PrismaPg } from '@prisma/adapter-pg';
import { Redis } from 'ioredis';
// The client of this repository's own schema, from the build.
import { PrismaClient } from '../../dist/database/generated/client.js';
import { decorateClass, decorateMethod } from './decorate.mjs';
import { ANONYMOUS, DAY_MS, limitHeaders, MINUTE_MS, quotasOf } from './quotas.mjs';

const { DATABASE_URL, REDIS_URL, PORT } = process.env;

/** The usual workaround for "Do not know how to serialize a BigInt". Ids here are well below 2^53. */
BigInt.prototype.toJSON = function toJSON() {
  return Number(this);
};

class PrismaService extends PrismaClient {
  constructor() {
    super({ adapter: new PrismaPg({ connectionString: DATABASE_URL }) });
  }
}
decorateClass(PrismaService, [Injectable()]);

class RedisService extends Redis {
  constructor() {
    super(REDIS_URL);
  }
}
decorateClass(RedisService, [Injectable()]);

class ApiKeyGuard {
  constructor(prisma, redis) {
    this.prisma = prisma;
    this.redis = redis;
  }

  async canActivate(context) {
    const http = context.switchToHttp();
    const request = http.getRequest();
    const token = /^bearer +(\S+)$/i.exec(request.headers.authorization ?? '')?.[1];
    const key = token === undefined ? null : await this.#lookUp(createHash('sha256').update(token).digest());
    const quotas = key === null ? ANONYMOUS : quotasOf(key);
    const usage = await this.#count(key === null ? `address:${request.ip}` : `key:${key.id}`, quotas);
    http.getResponse().set(limitHeaders(quotas, usage));
    if (!usage.admitted) {
      throw failure(429, 'rate_limit_exceeded', 'The rate limit is exceeded.');
    }
    if (key === null) {
      throw failure(401, 'invalid_api_key', 'The API key is not valid.');
    }
    return true;
  }

  async #lookUp(keyHash) {
    const key = await this.prisma.apiKey.findUnique({ where: { keyHash } });
    if (key === null || key.revokedAt !== null || (key.expiresAt !== null && key.expiresAt <= new Date())) {
      return null;
    }
    const { id, plan, requestsPerMinute, requestsPerDay } = key;
    return { id, plan, requests_per_minute: requestsPerMinute, requests_per_day: requestsPerDay };
  }

  async #count(subject, { perMinute, perDay }) {
    const nowMs = Date.now();
    const minuteKey = `nest:{${subject}}:m:${Math.floor(nowMs / MINUTE_MS)}`;
    const dayKey = `nest:{${subject}}:d:${Math.floor(nowMs / DAY_MS)}`;
    const replies = await this.redis
      .multi()
      .incr(minuteKey)
      .expire(minuteKey, 60)
      .incr(dayKey)
      .expire(dayKey, 86_400)
      .exec();
    const [minuteUsed, dayUsed] = [replies[0][1], replies[2][1]];
    return { admitted: minuteUsed <= perMinute && dayUsed <= perDay, minuteUsed, dayUsed, nowMs };
  }
}
decorateClass(ApiKeyGuard, [Injectable()], [PrismaService, RedisService]);

class OrdersController {
  constructor(prisma) {
    this.prisma = prisma;
  }

  async list() {
    const orders = await this.prisma.order.findMany({
      select: { id: true, petId: true, quantity: true, shipDate: true, complete: true },
      orderBy: { id: 'asc' },
    });
    return orders.map((order) => ({ ...order, shipDate: order.shipDate ?? undefined }));
  }

  async cancel(orderId) {
    if (!/^-?(?:0|[1-9]\d{0,18})$/.test(orderId)) {
      throw failure(400, 'invalid_order_id', 'The order id is not an integer.');
    }
    const id = BigInt(orderId);
    await this.prisma.$transaction(async (transaction) => {
      const [order] = await transaction.$queryRaw`SELECT status::text FROM orders WHERE id = ${id} FOR UPDATE`;
      if (order === undefined) {
        throw failure(404, 'order_not_found', 'No order has this id.');
      }
      if (order.status === 'shipped') {
        throw failure(409, 'order_already_shipped', 'The order has already shipped.');
      }
      if (order.status === 'cancelled') {
        throw failure(409, 'order_already_cancelled', 'The order has already been cancelled.');
      }
      await transaction.order.update({ where: { id }, data: { status: 'cancelled', cancelledAt: new Date() } });
    });
  }
}
decorateClass(OrdersController, [Controller('v1/store/orders')], [PrismaService]);
decorateMethod(OrdersController, 'list', [Get()]);
decorateMethod(OrdersController, 'cancel', [Delete(':orderId'), HttpCode(204)], [Param('orderId')]);

class AppModule {}
decorateClass(AppModule, [
  Module({
    controllers: [OrdersController],
    providers: [PrismaService, RedisService, { provide: APP_GUARD, useClass: ApiKeyGuard }],
  }),
]);

function failure(status, code, message) {
  return new HttpException({ code, message, status }, status);
}

const app = await NestFactory.create(AppModule, { logger: ['error', 'warn'] });
await app.listen(Number(PORT), '127.0.0.1');
process.once('SIGTERM', () => process.exit(0));
