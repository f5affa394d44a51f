// The official TypeScript SDK as a client that is asked and told things while its calls run; it reports what it saw, as one
// JSON object. The argument is that of client.mjs.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import {
  CallToolResultSchema,
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { transport } from "./where.mjs";

const seen = { questions: [], logs: [], progress: [], updated: [] };
const client = new Client(
  { name: "bridge-tests-ts", version: "1.0.0" },
  { capabilities: { elicitation: {}, sampling: {} } },
);
client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
  const fields = Object.keys(params.requestedSchema.properties);
  seen.questions.push(fields);
  const content = fields.includes("confirm") ? { confirm: true } : { city: "Huế", express: true };
  return { action: "accept", content };
});
client.setRequestHandler(CreateMessageRequestSchema, async ({ params }) => {
  const text = `You asked: ${params.messages[0].content.text}`;
  return { role: "assistant", model: "test", content: { type: "text", text } };
});
client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void seen.logs.push(params.level));
client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void seen.updated.push(params.uri));
await client.connect(transport());
await client.listTools();

const call = async (name, args, options) =>
  (await client.callTool({ name, arguments: args }, CallToolResultSchema, options)).structuredContent;

seen.form = await call("test.asks_form", {});
seen.model = await call("test.asks_model", { question: "Why?" });

await client.setLoggingLevel("warning");
await call("test.logs", { level: "info", message: "not this" });
await call("test.logs", { level: "error", message: "but this" });

const onprogress = ({ progress }) => void seen.progress.push(progress);
seen.steps = await call("test.inline_steps", { steps: 3, ms: 150 }, { onprogress });

const cancelling = new AbortController();
setTimeout(() => cancelling.abort("enough"), 400);
seen.cancelled = await call("test.inline_steps", { steps: 300, ms: 100 }, { signal: cancelling.signal }).then(
  () => "it answered",
  () => "cancelled",
);

const { resources } = await client.listResources();
await client.subscribeResource({ uri: resources[0].uri });
await call("test.tells_updated", { uris: [resources[0].uri] });
for (let waited = 0; seen.updated.length === 0 && waited < 100; waited++) {
  await new Promise((resolve) => setTimeout(resolve, 50));
}
seen.subscribed = resources[0].uri;

const row = { kind: "note", body: { from: "an SDK" } };
seen.confirmed = await call("cyberos.memory.append_audit", row);

await client.close();
console.log(JSON.stringify(seen));
