from cyberos import READ_ONLY, Tools, tool


@tool(
    name="{{ tool }}",
    title="Greet",
    description="Returns a greeting for the given name. Use it to try the bridge.",
    annotations=READ_ONLY,
    input={
        "type": "object",
        "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 100, "description": "Who to greet."}},
        "required": ["name"],
        "additionalProperties": False,
    },
    output={
        "type": "object",
        "properties": {"text": {"type": "string", "description": "The greeting, ready to be shown."}},
        "required": ["text"],
        "additionalProperties": False,
    },
)
def greet(arguments):
    return {"text": f"Hello, {arguments['name']}!"}
