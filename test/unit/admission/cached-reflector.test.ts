import { SetMetadata } from '@nestjs/common';
import { CachedReflector } from '../../../src/admission/cached-reflector.js';

const KEY = 'test:key';

class Base {
  handle(): void {
    // Only its metadata counts.
  }
}

@SetMetadata(KEY, 'first')
class First extends Base {}

@SetMetadata(KEY, 'second')
class Second extends Base {}

const handler = Object.getOwnPropertyDescriptor(Base.prototype, 'handle')?.value as () => void;

describe('CachedReflector', () => {
  it('returns the metadata of each class when two classes inherit a handler', () => {
    const reflector = new CachedReflector();
    for (const [controller, value] of [
      [First, 'first'] as const,
      [Second, 'second'] as const,
      [First, 'first'] as const,
    ]) {
      expect(reflector.getAllAndOverride(KEY, [handler, controller])).toBe(value);
    }
  });

  it('looks metadata up once, also when there is none', () => {
    const reflector = new CachedReflector();
    const lookUp = jest.spyOn(Reflect, 'getMetadata');
    try {
      for (let request = 0; request < 3; request++) {
        expect(reflector.getAllAndOverride('test:missing', [handler, First])).toBeUndefined();
      }
      expect(lookUp).toHaveBeenCalledTimes(2);
    } finally {
      lookUp.mockRestore();
    }
  });
});
