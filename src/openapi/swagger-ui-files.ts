/**
 * What Swagger UI's page consists of, below its path. The package that it comes from holds more (source maps, its own
 * package.json, other builds), which the static file server would hand out just the same.
 */
const DOCS_FILES: ReadonlySet<string> = new Set([
  '/',
  '/openapi.json',
  '/favicon-16x16.png',
  '/favicon-32x32.png',
  '/swagger-ui.css',
  '/swagger-ui-bundle.js',
  '/swagger-ui-init.js',
  '/swagger-ui-standalone-preset.js',
]);

export function isSwaggerUiFile(path: string): boolean {
  return DOCS_FILES.has(path);
}
