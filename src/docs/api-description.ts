/** What a partner reads first in Swagger UI. Markdown. */
export const API_DESCRIPTION = `
List all orders of the pet store and cancel a pending one.

**Authentication.** Send your API key with every request: \`Authorization: Bearer <key>\`. Press *Authorize* above to try the operations here.

**Limits.** Each key may make so many requests per minute and per day (windows begin with the UTC minute and the UTC day):

| Plan | per minute | per day |
|---|---|---|
| Free | 60 | 1,000 |
| Pro | 300 | 10,000 |
| Business | 1,000 | 100,000 |
| Enterprise | custom | custom |

Every response says where you stand: \`X-RateLimit-Limit\`, \`X-RateLimit-Remaining\` and \`X-RateLimit-Reset\` (Unix seconds) for the window that has the fewest requests left, and both windows in \`RateLimit-Policy\` and \`RateLimit\`. A request beyond the limit is answered 429 and counts for nothing; wait for the time given in \`Retry-After\`, then back off exponentially. Repeated requests after a 429 may ban the key for a while.

**Errors.** Every error has the body \`{"code", "message", "status"}\`. Decide by \`code\`; \`message\` is for people.

**Versioning.** The version is part of the base address. Filtering and pagination of the list are planned for v2; v1 stays as it is.
`.trim();
