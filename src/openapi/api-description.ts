import { PLAN_QUOTAS, PLANS } from '../plans/plans.js';

/** The name of the security scheme in the document, which `@ApiBearerAuth()` refers to. */
export const BEARER_SCHEME = 'bearer';

const PLAN_ROWS = PLANS.map((plan) => {
  const name = plan.charAt(0).toUpperCase() + plan.slice(1);
  if (plan === 'enterprise') {
    return `| ${name} | custom | custom |`;
  }
  const { requestsPerMinute, requestsPerDay } = PLAN_QUOTAS[plan];
  return `| ${name} | ${requestsPerMinute.toLocaleString('en')} | ${requestsPerDay.toLocaleString('en')} |`;
}).join('\n');

/** The introduction of the document and of Swagger UI. Markdown. */
export const API_DESCRIPTION = `
Lists the orders of a pet store and cancels orders that are still pending.

### Authentication

Send your API key with every request, as \`Authorization: Bearer <key>\`. The operator of the store issues keys. A key can read and cancel all orders, so keep it secret and do not embed it in web pages.

### Limits

The plan of a key limits its requests per UTC minute and per UTC day:

| Plan | per minute | per day |
|---|---|---|
${PLAN_ROWS}

Every response to a request carries these headers. The error for input that never becomes a request, such as malformed HTTP, has only the last one.

| Header | Meaning |
|---|---|
| \`X-RateLimit-Limit\` | The limit of the window, minute or day, with the fewest requests remaining |
| \`X-RateLimit-Remaining\` | Requests remaining in that window |
| \`X-RateLimit-Reset\` | When that window or a ban ends, as a Unix timestamp in seconds |
| \`RateLimit-Policy\`, \`RateLimit\` | Both windows, in the format of the IETF draft |
| \`X-Request-Id\` | The id of the request in the log of the service; name it when you report an error |

A request beyond the limit gets **429**, has no effect and consumes no quota. Wait for the number of seconds in \`Retry-After\` before you retry, and use exponential backoff if the retry is rejected, too. A key that keeps exceeding its limits is temporarily banned. Requests without a valid key count against the address of the client.

### Errors

Every error has the body \`{"code", "message", "status"}\`. Use \`code\` in programs; \`message\` is for humans and may change. New codes may be added: treat an unknown code by its status.

### Numbers

\`id\` and \`petId\` are exact 64-bit integers. JavaScript's \`JSON.parse\` rounds integers above 9007199254740991; use a parser that preserves all digits.

### Versions

The version is part of the base address: \`/v1\` stays as described here. Filtering and pagination of the list are planned for v2. An operation is marked *deprecated* on this page, with its sunset date, before it is removed; an operation that may still change is marked experimental or beta. Neither applies to the two operations below.
`.trim();
