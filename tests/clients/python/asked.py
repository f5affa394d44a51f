"""The official Python SDK as a client that is asked and told things while its calls run; it reports what it saw, as one JSON
object. The argument is that of client.py.
"""

import asyncio
import json

from mcp import ClientSession, types
from where import streams

SEEN = {"questions": [], "logs": [], "progress": [], "updated": []}


async def elicited(_context, params):
    fields = list(params.requestedSchema["properties"])
    SEEN["questions"].append(fields)
    content = {"confirm": True} if "confirm" in fields else {"city": "Huế", "express": True}
    return types.ElicitResult(action="accept", content=content)


async def sampled(_context, params):
    text = f"You asked: {params.messages[0].content.text}"
    return types.CreateMessageResult(role="assistant", model="test", content=types.TextContent(type="text", text=text))


async def logged(params):
    SEEN["logs"].append(params.level)


async def progressed(progress, _total, _message):
    SEEN["progress"].append(progress)


async def heard(message):
    if isinstance(message, types.ServerNotification) and isinstance(message.root, types.ResourceUpdatedNotification):
        SEEN["updated"].append(str(message.root.params.uri))


async def cancel_soon(session, request_id):
    """This SDK has no call for it: the notification is what the protocol asks for."""
    await asyncio.sleep(0.4)
    params = types.CancelledNotificationParams(requestId=request_id, reason="enough")
    await session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))


async def main():
    callbacks = {
        "elicitation_callback": elicited,
        "sampling_callback": sampled,
        "logging_callback": logged,
        "message_handler": heard,
    }
    async with streams() as (read, write), ClientSession(read, write, **callbacks) as session:
        await session.initialize()
        await session.list_tools()

        async def call(name, arguments, **more):
            return (await session.call_tool(name, arguments, **more)).structuredContent

        SEEN["form"] = await call("test.asks_form", {})
        SEEN["model"] = await call("test.asks_model", {"question": "Why?"})

        await session.set_logging_level("warning")
        await call("test.logs", {"level": "info", "message": "not this"})
        await call("test.logs", {"level": "error", "message": "but this"})

        SEEN["steps"] = await call("test.inline_steps", {"steps": 3, "ms": 150}, progress_callback=progressed)

        # Ids are counted from zero; the next request takes the next one.
        cancelling = asyncio.create_task(cancel_soon(session, session._request_id))
        try:
            await asyncio.wait_for(call("test.inline_steps", {"steps": 300, "ms": 100}), 2)
            SEEN["cancelled"] = "it answered"
        except asyncio.TimeoutError:
            SEEN["cancelled"] = "cancelled"
        await cancelling

        resources = (await session.list_resources()).resources
        await session.subscribe_resource(resources[0].uri)
        await call("test.tells_updated", {"uris": [str(resources[0].uri)]})
        for _ in range(100):
            if SEEN["updated"]:
                break
            await asyncio.sleep(0.05)
        SEEN["subscribed"] = str(resources[0].uri)

        SEEN["confirmed"] = await call("cyberos.memory.append_audit", {"kind": "note", "body": {"from": "an SDK"}})
    print(json.dumps(SEEN))


asyncio.run(main())
