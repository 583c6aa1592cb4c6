// What the Fastify peer does, in a guard and a controller of NestJS on Express: the difference is the framework's share. Plain
// JavaScript so that it runs without a build of its own; `decorate.mjs` replaces the decorators.
import { Controller, Delete, Get, Header, HttpException, Module, Param, Res } from '@nestjs/common';
import { APP_GUARD, NestFactory } from '@nestjs/core';
import { decorateClass, decorateMethod } from './decorate.mjs';
import { bearerOf, cancelOrder, findKey, listOrders, take } from './pg-and-redis.mjs';
import { ANONYMOUS, limitHeaders } from './quotas.mjs';

class ApiKeyGuard {
  async canActivate(context) {
    const http = context.switchToHttp();
    const request = http.getRequest();
    const token = bearerOf(request.headers.authorization);
    const key = token === undefined ? undefined : await findKey(token);
    const quotas = key?.quotas ?? ANONYMOUS;
    const usage = await take(key === undefined ? `address:${request.ip}` : `key:${key.id}`, quotas);
    http.getResponse().set(limitHeaders(quotas, usage));
    if (!usage.admitted) {
      throw failure(429, 'rate_limit_exceeded', 'The rate limit is exceeded.');
    }
    if (key === undefined) {
      throw failure(401, 'invalid_api_key', 'The API key is not valid.');
    }
    return true;
  }
}

class OrdersController {
  async list(response) {
    const list = await listOrders();
    if (typeof list === 'string') {
      response.send(list);
    } else {
      list.pipe(response);
    }
  }

  async cancel(orderId, response) {
    const rejection = await cancelOrder(orderId);
    if (rejection !== undefined) {
      throw failure(...rejection);
    }
    response.status(204).end();
  }
}
decorateClass(OrdersController, [Controller('v1/store/orders')]);
decorateMethod(OrdersController, 'list', [Get(), Header('content-type', 'application/json')], [Res()]);
decorateMethod(OrdersController, 'cancel', [Delete(':orderId')], [Param('orderId'), Res()]);

class AppModule {}
decorateClass(AppModule, [
  Module({ controllers: [OrdersController], providers: [{ provide: APP_GUARD, useClass: ApiKeyGuard }] }),
]);

function failure(status, code, message) {
  return new HttpException({ code, message, status }, status);
}

const app = await NestFactory.create(AppModule, { logger: ['error', 'warn'], bodyParser: false });
await app.listen(Number(process.env.PORT), '127.0.0.1');
process.once('SIGTERM', () => process.exit(0));
