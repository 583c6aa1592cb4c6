/** What a partner reads first in Swagger UI. Markdown. */
export const API_DESCRIPTION = `
The orders of a pet store: list all of them, and cancel one that is still pending.

### Authentication

Send your API key with every request, as \`Authorization: Bearer <key>\`. To try the operations on this page, press **Authorize** and paste the key alone, without "Bearer". The operator of the store issues keys; a key reads and cancels all orders, so keep it secret and off web pages.

### Limits

A key may make so many requests per UTC minute and per UTC day:

| Plan | per minute | per day |
|---|---|---|
| Free | 60 | 1,000 |
| Pro | 300 | 10,000 |
| Business | 1,000 | 100,000 |
| Enterprise | custom | custom |

Every response says where you stand:

| Header | Meaning |
|---|---|
| \`X-RateLimit-Limit\` | The limit that applies: of minute and day, the window with the fewest requests left |
| \`X-RateLimit-Remaining\` | Requests left in that window |
| \`X-RateLimit-Reset\` | When that window ends, as a Unix timestamp in seconds |
| \`RateLimit-Policy\`, \`RateLimit\` | Both windows at once, in the form of the IETF draft |

A request beyond the limit is answered **429**, has no effect and is not counted. Wait for the seconds in \`Retry-After\` before you try again, and back off exponentially if that is refused too. A key that keeps calling regardless is banned for a while. Requests without a valid key are counted against the address they come from.

### Errors

Every error has the body \`{"code", "message", "status"}\`. Decide by \`code\`; \`message\` is for people and may change. New codes may be added: treat one that you do not know by its status.

### Numbers

\`id\` and \`petId\` are exact 64-bit integers. JavaScript's \`JSON.parse\` rounds those above 9007199254740991; use a parser that keeps all digits.

### Versions

The version is part of the base address: \`/v1\` stays as it is described here. Filtering and pagination of the list are planned for v2. An operation that is to go is marked *deprecated* on this page, with its sunset date, before it goes; one that may still change is marked experimental or beta. The two operations below are neither.
`.trim();
