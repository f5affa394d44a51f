// The official TypeScript SDK talks to a bridge and reports what it saw, as one JSON object.
//
//   node client.mjs '{"transport":"stdio","command":"…","args":[…],"env":{…}}'
//   node client.mjs '{"transport":"http","url":"http://…/mcp","token":"…"}'

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { CallToolResultSchema, McpError, ResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { transport } from "./where.mjs";

/** What a program sees of an error, without reading its text. */
async function errorOf(doing) {
  try {
    await doing;
  } catch (error) {
    const { class: kind, reason, hint, trace_id } = error.data ?? {};
    return { isMcpError: error instanceof McpError, code: error.code, class: kind, reason, hint, trace_id, message: error.message };
  }
  return null;
}

const client = new Client({ name: "bridge-tests-ts", version: "1.0.0" }, { capabilities: {} });
await client.connect(transport());
const seen = { server: client.getServerVersion(), capabilities: client.getServerCapabilities() };

// The SDK checks every structured result against the output schema that it was told here.
const { tools } = await client.listTools();
seen.tools = tools.map((tool) => tool.name);

const personas = await client.callTool({ name: "cyberos.cuo.list_personas", arguments: {} });
seen.personas = personas.structuredContent.personas.length;

const workflow = {
  name: "cyberos.cuo.execute_workflow",
  arguments: {
    persona: "chief-technology-officer",
    workflow: "adr-quick-capture",
    inputs: { title: "From an SDK", decision_context: "Does it follow tasks?" },
  },
};

// MCP's own tasks.
seen.statuses = [];
for await (const message of client.experimental.tasks.callToolStream(workflow, CallToolResultSchema, { task: { ttl: 60000 } })) {
  if (message.type === "taskCreated" || message.type === "taskStatus") seen.statuses.push(message.task.status);
  if (message.type === "result") seen.result = message.result.structuredContent;
  if (message.type === "error") throw message.error;
}

// The plain form, for clients without tasks.
const handle = (await client.callTool(workflow)).structuredContent;
seen.handle = handle.status;
do {
  await new Promise((resolve) => setTimeout(resolve, 50));
  seen.plain = await client.request({ method: "tasks/get", params: { id: handle.task_id } }, ResultSchema);
} while (seen.plain.status === "running");

seen.wrongCall = await errorOf(client.callTool({ name: "cyberos.cuo.route", arguments: {} }));
seen.unconfirmed = await errorOf(
  client.callTool({ name: "cyberos.memory.append_audit", arguments: { kind: "decision", body: {} } }),
);

await client.close();
console.log(JSON.stringify(seen));
