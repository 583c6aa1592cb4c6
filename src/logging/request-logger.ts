/** Injection token of the pino logger that gets one line a request. */
export const REQUEST_LOGGER = Symbol('request logger');
