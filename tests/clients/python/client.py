"""The official Python SDK talks to a bridge and reports what it saw, as one JSON object.

python client.py '{"transport":"stdio","command":"…","args":[…],"env":{…}}'
python client.py '{"transport":"http","url":"http://…/mcp","token":"…"}'
"""

import asyncio
import json

from mcp import ClientSession, McpError
from mcp.types import CallToolResult
from where import streams

WORKFLOW = {
    "persona": "chief-technology-officer",
    "workflow": "adr-quick-capture",
    "inputs": {"title": "From an SDK", "decision_context": "Does it follow tasks?"},
}


async def error_of(doing):
    """What a program sees of an error, without reading its text."""
    try:
        await doing
    except McpError as error:
        data = error.error.data or {}
        keys = ("class", "reason", "hint", "trace_id")
        seen = {key: data.get(key) for key in keys}
        return seen | {"isMcpError": True, "code": error.error.code, "message": error.error.message}
    return None


async def main():
    async with streams() as (read, write), ClientSession(read, write) as session:
        hello = await session.initialize()
        seen = {"server": hello.serverInfo.model_dump(), "protocol": hello.protocolVersion}

        # The SDK checks every structured result against the output schema that it was told here.
        seen["tools"] = [tool.name for tool in (await session.list_tools()).tools]
        personas = await session.call_tool("cyberos.cuo.list_personas", {})
        seen["personas"] = len(personas.structuredContent["personas"])

        # MCP's own tasks.
        created = await session.experimental.call_tool_as_task("cyberos.cuo.execute_workflow", WORKFLOW)
        seen["statuses"] = [created.task.status]
        async for status in session.experimental.poll_task(created.task.taskId):
            seen["statuses"].append(status.status)
        result = await session.experimental.get_task_result(created.task.taskId, CallToolResult)
        seen["result"] = result.structuredContent

        # The plain form, for clients without tasks: the handle is an ordinary result.
        handle = await session.call_tool("cyberos.cuo.execute_workflow", WORKFLOW)
        seen["handle"] = handle.structuredContent["status"]
        async for status in session.experimental.poll_task(handle.structuredContent["task_id"]):
            seen["plain"] = {"status": status.status}

        seen["wrongCall"] = await error_of(session.call_tool("cyberos.cuo.route", {}))
        row = {"kind": "decision", "body": {}}
        seen["unconfirmed"] = await error_of(session.call_tool("cyberos.memory.append_audit", row))
    print(json.dumps(seen))


asyncio.run(main())
