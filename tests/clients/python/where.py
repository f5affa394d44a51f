"""The way to the bridge that the command line names:

'{"transport":"stdio","command":"…","args":[…],"env":{…}}'
'{"transport":"http","url":"http://…/mcp","token":"…"}'
"""

import json
import sys
from contextlib import asynccontextmanager

import httpx
from mcp import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

WHERE = json.loads(sys.argv[1])


@asynccontextmanager
async def streams():
    if WHERE["transport"] == "stdio":
        server = StdioServerParameters(command=WHERE["command"], args=WHERE["args"], env=WHERE["env"])
        async with stdio_client(server) as (read, write):
            yield read, write
        return
    headers = {"Authorization": f"Bearer {WHERE['token']}"}
    async with httpx.AsyncClient(headers=headers, timeout=30, trust_env=False) as client:
        async with streamable_http_client(WHERE["url"], http_client=client) as (read, write, _):
            yield read, write
