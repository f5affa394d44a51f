// The way to the bridge that the command line names:
//
//   '{"transport":"stdio","command":"…","args":[…],"env":{…}}'
//   '{"transport":"http","url":"http://…/mcp","token":"…"}'

import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const where = JSON.parse(process.argv[2]);

export function transport() {
  if (where.transport === "stdio") {
    return new StdioClientTransport({ command: where.command, args: where.args, env: where.env, stderr: "inherit" });
  }
  const headers = { Authorization: `Bearer ${where.token}` };
  return new StreamableHTTPClientTransport(new URL(where.url), { requestInit: { headers } });
}
