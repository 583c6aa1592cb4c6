import 'reflect-metadata';
import { Inject } from '@nestjs/common';

/** Decorates a class, as `@A() @B() class X` compiles to; the constructor's parameters are injected by the given tokens. */
export function decorateClass(target, decorators, injections = []) {
  injections.forEach((token, index) => Inject(token)(target, undefined, index));
  Reflect.defineMetadata('design:paramtypes', injections, target);
  for (const decorator of decorators.toReversed()) {
    decorator(target);
  }
}

/** Decorates a method, as `@A() @B() name(@P() first)` compiles to. */
export function decorateMethod(target, name, decorators, parameters = []) {
  const { prototype } = target;
  parameters.forEach((decorator, index) => decorator(prototype, name, index));
  const descriptor = Object.getOwnPropertyDescriptor(prototype, name);
  for (const decorator of decorators.toReversed()) {
    decorator(prototype, name, descriptor);
  }
  Object.defineProperty(prototype, name, descriptor);
}
