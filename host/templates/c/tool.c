#include "tools.h"

#include <stdio.h>

static void greet(const char *arguments, struct answer *answer) {
    char name[401]; // 100 characters of at most four bytes
    if (!json_string(arguments, "name", name, sizeof name)) {
        answer_error(answer, INVALID_INPUT, "name is missing or too long");
        return;
    }
    char text[512];
    snprintf(text, sizeof text, "Hello, %s!", name);
    answer_string(answer, "text", text);
}

const struct tool TOOLS[] = {
    {
        .name = "{{ tool }}",
        .title = "Greet",
        .description = "Returns a greeting for the given name. Use it to try the bridge.",
        .input = "{\"type\": \"object\","
                 " \"properties\": {\"name\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 100,"
                 "   \"description\": \"Who to greet.\"}},"
                 " \"required\": [\"name\"], \"additionalProperties\": false}",
        .output = "{\"type\": \"object\","
                  " \"properties\": {\"text\": {\"type\": \"string\", \"description\": \"The greeting, ready to be shown.\"}},"
                  " \"required\": [\"text\"], \"additionalProperties\": false}",
        .annotations = READ_ONLY,
        .call = greet,
    },
};
const size_t TOOL_COUNT = sizeof TOOLS / sizeof *TOOLS;
