/** The ids of a W3C trace context, as log lines hold them. */
export interface TraceContext {
  trace_id: string;
  /** of the caller's span: the service makes none of its own */
  span_id: string;
}

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?$/;

/** Reads a `traceparent` header; undefined if it is missing, or if the specification requires to ignore it. */
export function traceContextOf(header: string | undefined): TraceContext | undefined {
  const [, traceId, spanId] = TRACEPARENT.exec(header ?? '') ?? [];
  if (!traceId || !spanId || /^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { trace_id: traceId, span_id: spanId };
}
