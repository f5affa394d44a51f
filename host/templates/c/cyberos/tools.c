#include "tools.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

// plugin.c wants to see the component's type linked in; `plugin build` adds it afterwards.
void __component_type_object_force_link_plugin(void) {}

struct buffer {
    char *bytes;
    size_t length, room;
};

struct answer {
    struct buffer fields, text;
    bool failed, ended;
    enum failure failure;
};

static void append(struct buffer *buffer, const char *bytes, size_t length) {
    if (buffer->length + length > buffer->room) {
        buffer->room = 2 * (buffer->length + length) + 64;
        buffer->bytes = realloc(buffer->bytes, buffer->room);
        if (!buffer->bytes) abort();
    }
    memcpy(buffer->bytes + buffer->length, bytes, length);
    buffer->length += length;
}

static void put(struct buffer *buffer, const char *text) { append(buffer, text, strlen(text)); }

static void quote(struct buffer *buffer, const char *text) {
    put(buffer, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        char escaped[8];
        if (*c == '"' || *c == '\\') {
            snprintf(escaped, sizeof escaped, "\\%c", *c);
            put(buffer, escaped);
        } else if (*c < 0x20) {
            snprintf(escaped, sizeof escaped, "\\u%04x", *c);
            put(buffer, escaped);
        } else {
            append(buffer, (const char *)c, 1);
        }
    }
    put(buffer, "\"");
}

// ---- reading. The host has checked that the text is JSON, so that a value ends where its brackets or quotes do.

static const char *space(const char *at) {
    while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r') at++;
    return at;
}

static const char *after_string(const char *at) {
    for (at++; *at && *at != '"'; at++) {
        if (*at == '\\' && at[1]) at++;
    }
    return *at ? at + 1 : at;
}

static const char *after_value(const char *at) {
    if (*at == '"') return after_string(at);
    if (*at == '{' || *at == '[') {
        size_t depth = 0;
        while (*at) {
            if (*at == '"') {
                at = after_string(at);
                continue;
            }
            if (*at == '{' || *at == '[') depth++;
            if ((*at == '}' || *at == ']') && --depth == 0) return at + 1;
            at++;
        }
        return at;
    }
    while (*at && !strchr(",]} \t\r\n", *at)) at++;
    return at;
}

static void put_utf8(struct buffer *to, unsigned long c) {
    unsigned char bytes[4];
    size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = length; i-- > 1; c >>= 6) bytes[i] = 0x80 | (c & 0x3f);
    bytes[0] = lead[length] | c;
    append(to, (const char *)bytes, length);
}

static unsigned long hex4(const char *at) {
    char digits[5] = {0};
    strncpy(digits, at, 4);
    return strtoul(digits, NULL, 16);
}

// The text of a string literal, unescaped, in new memory.
static struct buffer unquoted(const char *at) {
    struct buffer text = {0};
    for (at++; *at && *at != '"'; at++) {
        if (*at != '\\') {
            append(&text, at, 1);
            continue;
        }
        at++;
        static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
        const char *plain = strchr(from, *at);
        if (*at == 'u' && strlen(at) > 4) {
            unsigned long c = hex4(at + 1);
            at += 4;
            if (c >= 0xd800 && c < 0xdc00 && at[1] == '\\' && at[2] == 'u' && strlen(at + 3) >= 4) {
                c = 0x10000 + ((c - 0xd800) << 10) + (hex4(at + 3) - 0xdc00);
                at += 6;
            }
            put_utf8(&text, c);
        } else if (*at && plain) {
            append(&text, to + (plain - from), 1);
        } else if (*at) {
            append(&text, at, 1);
        }
    }
    append(&text, "", 1);
    return text;
}

const char *json_value(const char *object, const char *key) {
    const char *at = space(object);
    if (*at != '{') return NULL;
    at = space(at + 1);
    while (*at == '"') {
        struct buffer name = unquoted(at);
        bool found = strcmp(name.bytes, key) == 0;
        free(name.bytes);
        at = space(after_string(at));
        if (*at != ':') return NULL;
        at = space(at + 1);
        if (found) return at;
        at = space(after_value(at));
        if (*at == ',') at = space(at + 1);
    }
    return NULL;
}

bool json_string(const char *object, const char *key, char *into, size_t size) {
    const char *value = json_value(object, key);
    if (!value || *value != '"') return false;
    struct buffer text = unquoted(value);
    // A string with U+0000 in it cannot be a string of C's.
    bool fits = text.length <= size && strlen(text.bytes) + 1 == text.length;
    if (fits) memcpy(into, text.bytes, text.length);
    free(text.bytes);
    return fits;
}

bool json_number(const char *object, const char *key, double *into) {
    const char *value = json_value(object, key);
    if (!value || !(*value == '-' || (*value >= '0' && *value <= '9'))) return false;
    *into = strtod(value, NULL);
    return true;
}

bool json_boolean(const char *object, const char *key, bool *into) {
    const char *value = json_value(object, key);
    if (!value || (*value != 't' && *value != 'f')) return false;
    *into = *value == 't';
    return true;
}

// ---- answering

static void field(struct answer *answer, const char *key) {
    put(&answer->fields, answer->fields.length ? "," : "{");
    quote(&answer->fields, key);
    put(&answer->fields, ":");
}

void answer_string(struct answer *answer, const char *key, const char *value) {
    field(answer, key);
    quote(&answer->fields, value);
}

void answer_number(struct answer *answer, const char *key, double value) {
    char digits[40];
    snprintf(digits, sizeof digits, "%.17g", value);
    answer_json(answer, key, digits);
}

void answer_boolean(struct answer *answer, const char *key, bool value) {
    answer_json(answer, key, value ? "true" : "false");
}

void answer_json(struct answer *answer, const char *key, const char *json) {
    field(answer, key);
    put(&answer->fields, json);
}

void answer_text(struct answer *answer, const char *text) { put(&answer->text, text); }

void answer_failed(struct answer *answer, const char *text) {
    answer->failed = true;
    put(&answer->text, text);
}

void answer_error(struct answer *answer, enum failure failure, const char *text) {
    answer->ended = true;
    answer->failure = failure;
    answer->text.length = 0;
    put(&answer->text, text);
}

// ---- what the world exports

static plugin_string_t given(struct buffer buffer) {
    return (plugin_string_t){(uint8_t *)buffer.bytes, buffer.length};
}

static plugin_string_t copied(const char *text) {
    plugin_string_t copy;
    plugin_string_dup(&copy, text);
    return copy;
}

static void declare(const struct tool *tool, cyberos_plugin_types_tool_t *into) {
    memset(into, 0, sizeof *into);
    into->name = copied(tool->name);
    into->title = copied(tool->title);
    into->description = copied(tool->description);
    into->input_schema = copied(tool->input);
    if (tool->output) {
        into->output_schema.is_some = true;
        into->output_schema.val = copied(tool->output);
    }
    into->annotations = tool->annotations;
    size_t scopes = 0;
    while (tool->scopes && tool->scopes[scopes]) scopes++;
    if (scopes) {
        into->scopes.ptr = calloc(scopes, sizeof *into->scopes.ptr);
        into->scopes.len = scopes;
        for (size_t i = 0; i < scopes; i++) into->scopes.ptr[i] = copied(tool->scopes[i]);
    }
    into->task_support = tool->task_support;
    into->idempotent_task = tool->idempotent_task;
}

void exports_cyberos_plugin_tools_list_tools(exports_cyberos_plugin_tools_list_tool_t *ret) {
    ret->len = TOOL_COUNT;
    ret->ptr = calloc(TOOL_COUNT, sizeof *ret->ptr);
    for (size_t i = 0; i < TOOL_COUNT; i++) declare(&TOOLS[i], &ret->ptr[i]);
}

bool exports_cyberos_plugin_tools_call_tool(plugin_string_t *name, exports_cyberos_plugin_tools_json_t *arguments,
                                            exports_cyberos_plugin_tools_tool_result_t *ret,
                                            exports_cyberos_plugin_tools_tool_error_t *err) {
    struct answer answer = {0};
    const struct tool *tool = NULL;
    for (size_t i = 0; i < TOOL_COUNT; i++) {
        if (strlen(TOOLS[i].name) == name->len && memcmp(TOOLS[i].name, name->ptr, name->len) == 0) tool = &TOOLS[i];
    }
    if (tool) {
        struct buffer json = {0};
        append(&json, (const char *)arguments->ptr, arguments->len);
        append(&json, "", 1);
        tool->call(json.bytes, &answer);
    } else {
        answer_error(&answer, INTERNAL, "it has no such tool");
    }
    if (!answer.ended && !answer.fields.length && !answer.text.length) {
        answer_error(&answer, INTERNAL, "it gave no answer");
    }
    if (answer.ended) {
        err->tag = answer.failure;
        err->val.internal = given(answer.text);
        return false;
    }
    memset(ret, 0, sizeof *ret);
    if (answer.fields.length) {
        put(&answer.fields, "}");
        ret->structured.is_some = true;
        ret->structured.val = given(answer.fields);
    }
    if (answer.text.length) {
        ret->content.ptr = calloc(1, sizeof *ret->content.ptr);
        ret->content.len = 1;
        ret->content.ptr[0].tag = CYBEROS_PLUGIN_TYPES_CONTENT_TEXT;
        ret->content.ptr[0].val.text.text = given(answer.text);
    }
    ret->is_error = answer.failed;
    return true;
}
