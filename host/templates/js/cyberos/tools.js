// Turns plain objects into what the world `cyberos:plugin/plugin` exports. The contract is in wit/deps/cyberos-plugin.

/** It changes nothing. */
export const READ_ONLY = {
  readOnly: true, destructive: false, idempotent: true, openWorld: false, write: false, externalEffect: false,
};
/** It changes something, and that can be undone. */
export const WRITE = { ...READ_ONLY, readOnly: false, idempotent: false, write: true };
/** It may destroy or overwrite something: every call waits for a person's confirmation. */
export const DESTRUCTIVE = { ...WRITE, destructive: true };

/** A call that ends without a result. Throw what these return. */
export const invalidInput = (text) => ({ tag: 'invalid-input', val: text });
export const denied = (text) => ({ tag: 'denied', val: text });
export const unavailable = (text) => ({ tag: 'unavailable', val: text });
export const internal = (text) => ({ tag: 'internal', val: text });

/** A result that says how the tool itself failed, for the model to act on. */
export const failed = (text) => new Result({ content: [block(text)], isError: true });

/** A result with content of its own: `{ content, structured, isError, meta }` as in wit/deps/cyberos-plugin/types.wit. */
export const result = (fields) => new Result(fields);

/** A block of text. */
export const block = (text) => ({ tag: 'text', val: { text } });

class Result {
  constructor(fields) {
    Object.assign(this, { content: [], isError: false }, fields);
  }
}

/**
 * What to export as `tools`. A tool has `name`, `title`, `description`, `annotations`, `input`, and if it likes `output`,
 * `scopes`, `taskSupport`, `idempotentTask`, `icons`, `meta`. Its `call` takes the arguments and returns an object (the
 * structured result), a string, or what `result` or `failed` made.
 */
export function serve(...tools) {
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  return {
    listTools: () => tools.map(declare),
    callTool(name, json) {
      const tool = byName.get(name);
      if (!tool) throw internal(`it has no tool ${name}`);
      let answer;
      try {
        answer = tool.call(JSON.parse(json));
      } catch (error) {
        throw error instanceof Error ? internal(`${error}\n${error.stack}`) : error;
      }
      return answered(answer);
    },
  };
}

function declare(tool) {
  const json = (value) => (value === undefined ? undefined : JSON.stringify(value));
  return {
    name: tool.name,
    title: tool.title,
    description: tool.description,
    inputSchema: JSON.stringify(tool.input),
    outputSchema: json(tool.output),
    annotations: tool.annotations,
    scopes: tool.scopes ?? [],
    taskSupport: tool.taskSupport ?? 'forbidden',
    idempotentTask: tool.idempotentTask ?? false,
    icons: json(tool.icons),
    meta: json(tool.meta),
  };
}

function answered(answer) {
  if (answer instanceof Result) return answer;
  if (typeof answer === 'string') return { content: [block(answer)], isError: false };
  return { content: [], structured: JSON.stringify(answer), isError: false };
}
