"""Turns plain functions into what the world `cyberos:plugin/plugin` exports. The contract is in wit/deps/cyberos-plugin."""

import json
import traceback
from dataclasses import replace

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports.types import (
    Annotations,
    Content_Text,
    TaskSupport,
    TextContent,
    Tool,
    ToolError_Denied,
    ToolError_Internal,
    ToolError_InvalidInput,
    ToolError_Unavailable,
    ToolResult,
)

READ_ONLY = Annotations(
    read_only=True, destructive=False, idempotent=True, open_world=False, write=False, external_effect=False
)
"""It changes nothing."""

WRITE = replace(READ_ONLY, read_only=False, idempotent=False, write=True)
"""It changes something, and that can be undone."""

DESTRUCTIVE = replace(WRITE, destructive=True)
"""It may destroy or overwrite something: every call waits for a person's confirmation."""


class Failure(Exception):
    """A call that ends without a result. Raise one of the four below."""


class InvalidInput(Failure):
    """The arguments are wrong in a way that the schema could not express."""


class Denied(Failure):
    """The caller may not do this."""


class Unavailable(Failure):
    """Something that the tool needs is not there now."""


class Internal(Failure):
    """The tool is broken. The text goes to the operator's log."""


_CASES = {
    InvalidInput: ToolError_InvalidInput,
    Denied: ToolError_Denied,
    Unavailable: ToolError_Unavailable,
    Internal: ToolError_Internal,
}
_tools = {}


def text(value):
    """A block of text."""
    return Content_Text(TextContent(value, None))


def failed(value):
    """A result that says how the tool itself failed, for the model to act on."""
    return ToolResult(content=[text(value)], structured=None, is_error=True, meta=None)


def tool(name, title, description, annotations, input, output=None, scopes=(), task_support=TaskSupport.FORBIDDEN,
         idempotent_task=False, icons=None, meta=None):
    """Offer a function as a tool. It takes the arguments as a dict and returns a dict (the structured result), a string,
    or a ToolResult."""
    written = lambda value: None if value is None else json.dumps(value)

    def offer(function):
        declared = Tool(
            name=name, title=title, description=description, input_schema=json.dumps(input),
            output_schema=written(output), annotations=annotations, scopes=list(scopes), task_support=task_support,
            idempotent_task=idempotent_task, icons=written(icons), meta=written(meta),
        )
        _tools[name] = (declared, function)
        return function

    return offer


class Tools(exports.Tools):
    def list_tools(self):
        return [declared for declared, _ in _tools.values()]

    def call_tool(self, name, arguments):
        if name not in _tools:
            raise Err(ToolError_Internal(f"it has no tool {name}"))
        try:
            answer = _tools[name][1](json.loads(arguments))
        except Failure as failure:
            raise Err(_CASES[type(failure)](str(failure)))
        except Err:
            raise
        except Exception:
            raise Err(ToolError_Internal(traceback.format_exc()))
        if isinstance(answer, ToolResult):
            return answer
        if isinstance(answer, str):
            return ToolResult(content=[text(answer)], structured=None, is_error=False, meta=None)
        return ToolResult(content=[], structured=json.dumps(answer), is_error=False, meta=None)
