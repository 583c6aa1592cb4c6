import js from '@eslint/js';
import prettier from 'eslint-config-prettier';
import jest from 'eslint-plugin-jest';
import globals from 'globals';
import ts from 'typescript-eslint';

/** Files whose rules hold whatever runs them: they import neither Nest nor Prisma nor a driver. */
const PURE_FILES = [
  'src/rate-limit/{plans,windows,verdict,decision,headers,subject,refusal,caller,quota-store}.ts',
  'src/api-keys/{bearer,key-format,verified-key}.ts',
  'src/orders/{order-id,cancellation,etag,order-list-encoder}.ts',
  'src/errors/{error-codes,error-messages,error-body,error-headers,domain-error}.ts',
  'src/import/{faults,order-fields,read-csv,read-ndjson}.ts',
];

export default ts.config(
  { ignores: ['**/dist', 'coverage', '.data', 'src/prisma/generated'] },
  js.configs.recommended,
  {
    files: ['**/*.ts'],
    extends: [ts.configs.strictTypeChecked, ts.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      '@typescript-eslint/explicit-function-return-type': ['error', { allowExpressions: true }],
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      // Fires on every options object that Nest types as a class.
      '@typescript-eslint/no-unsafe-class-instance-assignment': 'off',
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      '@typescript-eslint/no-extraneous-class': ['error', { allowWithDecorator: true, allowEmpty: true }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      'no-restricted-imports': [
        'error',
        { patterns: [{ group: ['**/test/**'], message: 'src never imports from test.' }] },
      ],
    },
  },
  {
    files: PURE_FILES,
    rules: {
      'no-restricted-imports': [
        'error',
        {
          patterns: [
            {
              group: ['@nestjs/*', '@prisma/*', '**/prisma/**', 'pg', 'express', 'ioredis'],
              message: 'This file is pure.',
            },
          ],
        },
      ],
    },
  },
  {
    // The inner loop reads and writes bytes at indices that it has checked itself.
    files: ['src/orders/order-list-encoder.ts'],
    rules: { '@typescript-eslint/no-non-null-assertion': 'off' },
  },
  {
    files: ['test/**/*.ts'],
    extends: [jest.configs['flat/recommended']],
    rules: {
      // A test that reads past the end of its own array fails anyway, where it stands.
      '@typescript-eslint/no-non-null-assertion': 'off',
      // Helpers of tests are no tests.
      'jest/no-export': 'off',
      'jest/expect-expect': ['error', { assertFunctionNames: ['expect', 'expect*', 'fc.assert', 'errorOf'] }],
      'jest/no-focused-tests': 'error',
      'jest/no-disabled-tests': 'error',
    },
  },
  { files: ['**/*.{js,mjs}'], languageOptions: { globals: globals.node } },
  prettier,
);
