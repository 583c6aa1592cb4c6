/** The command line is well-formed but asks for something that makes no sense. */
export class UsageError extends Error {}
