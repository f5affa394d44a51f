// Declare tools as a table, read arguments, build an answer. The contract itself is in plugin.h, made from wit/; call
// any host function there directly.
#ifndef CYBEROS_TOOLS_H
#define CYBEROS_TOOLS_H

#include "plugin.h"

struct answer;

struct tool {
    const char *name;
    const char *title;
    const char *description;
    const char *input;  // JSON Schema
    const char *output; // JSON Schema, or NULL
    cyberos_plugin_types_annotations_t annotations;
    const char *const *scopes; // ends with NULL; or NULL
    cyberos_plugin_types_task_support_t task_support;
    bool idempotent_task;
    // `arguments` is a JSON object that matches `input`. An answer without anything is an error of the tool's.
    void (*call)(const char *arguments, struct answer *answer);
};

// The plugin defines these two.
extern const struct tool TOOLS[];
extern const size_t TOOL_COUNT;

// It changes nothing.
#define READ_ONLY {.read_only = true, .idempotent = true}
// It changes something, and that can be undone.
#define WRITE {.write = true}
// It may destroy or overwrite something: every call waits for a person's confirmation.
#define DESTRUCTIVE {.write = true, .destructive = true}

// Reading. `object` is the text of a JSON object; false when the key is not there, is something else or does not fit.
bool json_string(const char *object, const char *key, char *into, size_t size);
bool json_number(const char *object, const char *key, double *into);
bool json_boolean(const char *object, const char *key, bool *into);
// The text of a value inside, for objects and arrays; NULL when it is not there. It is followed by the rest of `object`.
const char *json_value(const char *object, const char *key);

// Answering: the fields of the structured result, one after the other.
void answer_string(struct answer *answer, const char *key, const char *value);
void answer_number(struct answer *answer, const char *key, double value);
void answer_boolean(struct answer *answer, const char *key, bool value);
// A value that is JSON already.
void answer_json(struct answer *answer, const char *key, const char *json);
// Instead of or beside fields: a block of text.
void answer_text(struct answer *answer, const char *text);
// A result that says how the tool itself failed, for the model to act on.
void answer_failed(struct answer *answer, const char *text);

// The call ends without a result.
enum failure { INVALID_INPUT, DENIED, UNAVAILABLE, INTERNAL };
void answer_error(struct answer *answer, enum failure failure, const char *text);

#endif
