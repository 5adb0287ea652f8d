import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { expect } from 'vitest';
import type { HttpResponse } from './client.ts';

// biome-ignore lint/suspicious/noExplicitAny: a document is walked by its names
type Json = any;

/** Headers of HTTP itself or of the HTTP library, which the document does not list. */
const OF_HTTP = ['date', 'content-length', 'content-type', 'connection', 'keep-alive', 'transfer-encoding'];

/** OpenAPI document with which responses are compared. */
export class ApiDocument {
  readonly json: Json;
  readonly #ajv = new Ajv2020({ allErrors: true, allowUnionTypes: true });
  readonly #validators = new Map<string, ValidateFunction>();
  /** observed responses as `operationId status` and, for errors, `operationId status sentence` */
  readonly seen = new Set<string>();

  constructor(text: string) {
    this.json = JSON.parse(text);
    (addFormats as unknown as (ajv: Ajv2020) => void)(this.#ajv);
    // the document is no schema, but contains schemas
    this.#ajv.addVocabulary(Object.keys(this.json));
    this.#ajv.addSchema(this.json, 'document');
  }

  /** Returns the operations with their path and method. */
  operations(): { path: string; method: string; operation: Json }[] {
    return Object.entries<Json>(this.json.paths).flatMap(([path, item]) =>
      Object.entries<Json>(item).map(([method, operation]) => ({ path, method, operation })),
    );
  }

  /** Returns the operation of a request, if the document has it; a literal path precedes templates. */
  find(method: string, target: string): { pointer: string; operation: Json } | undefined {
    const path = target.split('?')[0]!;
    const wanted = method === 'HEAD' ? 'get' : method.toLowerCase();
    const matching = Object.keys(this.json.paths).filter(
      (template) =>
        new RegExp(`^${template.replace(/\{\w+\}/g, '[^/]+')}$`).test(path) &&
        wanted in this.json.paths[template],
    );
    const template = matching.includes(path) ? path : matching[0];
    if (!template) return undefined;
    const pointer = `#/paths/${pointerPart(template)}/${wanted}`;
    return { pointer, operation: this.json.paths[template][wanted] };
  }

  /** Fails if the response's status, headers or body differ from the document. */
  check(method: string, path: string, response: HttpResponse): void {
    const { pointer, operation } = this.find(method, path)!;
    const said = `${method} ${path} ${response.status}`;
    const described = operation.responses[response.status];
    expect(described, `${said} is documented`).toBeDefined();
    this.seen.add(`${operation.operationId} ${response.status}`);

    const headers = Object.entries<Json>(described.headers);
    const documented = new Map(headers.map(([name, header]) => [name.toLowerCase(), this.#deref(header)]));
    for (const [name, header] of documented) {
      const value = response.headers[name];
      if (value === undefined) expect(header.required, `${said}: ${name} may be missing`).toBe(false);
      else {
        const typed = header.schema.type === 'integer' ? Number(value) : value;
        this.#validate(header.schema, typed, `${said}: ${name}`);
      }
    }
    const others = Object.keys(response.headers).filter(
      (name) => !OF_HTTP.includes(name) && !documented.has(name),
    );
    expect(others, `${said}: headers beside those of the document`).toEqual([]);

    if (!described.content || method === 'HEAD') {
      expect(response.body.length, `${said} has no body`).toBe(0);
      return;
    }
    const type = String(response.headers['content-type']);
    expect(Object.keys(described.content), `${said}: content type`).toContain(type);
    const body = response.json();
    const schema = `${pointer}/responses/${response.status}/content/${pointerPart(type)}/schema`;
    this.#validate(schema, body, `${said}: body`);
    if (response.status < 400) return;
    const { examples } = described.content[type];
    expect(Object.keys(examples), `${said}: code`).toContain(response.headers['x-error-code']);
    this.seen.add(`${operation.operationId} ${response.status} ${body.error}`);
  }

  #deref(value: Json): Json {
    if (!value.$ref) return value;
    return value.$ref
      .slice(2)
      .split('/')
      .reduce((at: Json, name: string) => at[name], this.json);
  }

  /** Validates against a schema or a pointer to one in the document. */
  #validate(schema: object | string, value: unknown, what: string): void {
    const name = JSON.stringify(schema);
    const validator =
      this.#validators.get(name) ??
      this.#ajv.compile(typeof schema === 'string' ? { $ref: `document${schema}` } : schema);
    this.#validators.set(name, validator);
    validator(value);
    expect(validator.errors ?? [], what).toEqual([]);
  }
}

function pointerPart(part: string): string {
  return part.replaceAll('~', '~0').replaceAll('/', '~1').replaceAll('{', '%7B').replaceAll('}', '%7D');
}
