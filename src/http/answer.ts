import type { ServerResponse } from 'node:http';
import { errorBodyJson } from '../errors/error-body.js';
import { ERROR_STATUS, type ErrorCode } from '../errors/error-codes.js';
import { headersOfError, type HeaderPair } from '../errors/error-headers.js';
import { rateLimitHeaders } from '../rate-limit/headers.js';
import type { Verdict } from '../rate-limit/verdict.js';
import { API_SECURITY_HEADERS } from './security-headers.js';

const KEPT = Symbol('kept headers');
const LIMITS_KEPT = Symbol('kept limit headers');

type Answer = ServerResponse & { [KEPT]?: string[]; [LIMITS_KEPT]?: true };

/**
 * Keeps headers for whatever the answer will be. They are written together with the answer's own, in one go: setting
 * headers one by one costs Node a map, a check and a lower-cased name for each.
 */
export function keepHeaders(res: ServerResponse, headers: readonly HeaderPair[]): void {
  const answer = res as Answer;
  const kept = answer[KEPT] ?? [];
  answer[KEPT] = kept;
  for (const [name, value] of headers) {
    kept.push(name, value);
  }
}

/** Keeps the limit headers, once: the gate, the guard and the exception filter each make sure of them. */
export function keepLimitHeaders(res: ServerResponse, verdict: Verdict): void {
  const answer = res as Answer;
  if (answer[LIMITS_KEPT] === undefined) {
    answer[LIMITS_KEPT] = true;
    keepHeaders(res, rateLimitHeaders(verdict));
  }
}

/** Writes the head of an answer: the kept headers, then its own. */
export function writeHead(res: ServerResponse, status: number, headers: readonly HeaderPair[]): void {
  const all = (res as Answer)[KEPT] ?? [];
  for (const [name, value] of headers) {
    all.push(name, value);
  }
  res.writeHead(status, all);
}

const NO_STORE_HEADERS: readonly HeaderPair[] = [['Cache-Control', 'no-store'], ...API_SECURITY_HEADERS];

/** Answers 204. */
export function answerNoContent(res: ServerResponse): void {
  writeHead(res, 204, NO_STORE_HEADERS);
  res.end();
}

/** An error answer without what belongs to one request, so that it can be made once and written often. */
export interface ErrorAnswer {
  readonly status: number;
  readonly headers: readonly HeaderPair[];
  readonly body: string;
}

export function errorAnswer(code: ErrorCode, message: string): ErrorAnswer {
  const body = errorBodyJson(code, message);
  return { status: ERROR_STATUS[code], headers: errorHeaders(code, body), body };
}

export function writeErrorAnswer(res: ServerResponse, { status, headers, body }: ErrorAnswer): void {
  writeHead(res, status, headers);
  res.end(body);
}

/** Answers with an error; a HEAD request gets the headers alone. */
export function answerError(res: ServerResponse, code: ErrorCode, message: string): void {
  writeErrorAnswer(res, errorAnswer(code, message));
}

/** The headers that belong to an error and its body. */
export function errorHeaders(code: ErrorCode, body: string): HeaderPair[] {
  return [
    ['Content-Type', 'application/json'],
    ['Content-Length', String(Buffer.byteLength(body))],
    ...NO_STORE_HEADERS,
    ...headersOfError(code),
  ];
}
