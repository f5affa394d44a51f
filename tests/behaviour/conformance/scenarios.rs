//! The scenarios that revision 2025-11-25 requires of a server, 30 that the suite scores and 3 that it does not, and how
//! their checks are judged.

use serde_json::Value;

/// Each scenario and the checks, beyond the one of its own name and the one of the wire's schema, that must have
/// succeeded. The suite makes some of them only when an earlier one went well, so that their absence is a failure, too.
pub const SCENARIOS: &[(&str, &[&str])] = &[
    ("server-initialize", &["server-session-id-visible-ascii"]),
    ("logging-set-level", &[]),
    ("ping", &[]),
    ("completion-complete", &[]),
    ("tools-list", &["tools-name-format"]),
    ("tools-call-simple-text", &[]),
    ("tools-call-image", &[]),
    ("tools-call-audio", &[]),
    ("tools-call-embedded-resource", &[]),
    ("tools-call-mixed-content", &[]),
    ("tools-call-with-logging", &[]),
    ("tools-call-error", &[]),
    ("tools-call-with-progress", &[]),
    ("tools-call-sampling", &[]),
    ("tools-call-elicitation", &[]),
    (
        "elicitation-sep1034-defaults",
        &[
            "elicitation-sep1034-string-default",
            "elicitation-sep1034-integer-default",
            "elicitation-sep1034-number-default",
            "elicitation-sep1034-enum-default",
            "elicitation-sep1034-boolean-default",
        ],
    ),
    ("server-sse-multiple-streams", &["server-accepts-multiple-post-streams"]),
    (
        "elicitation-sep1330-enums",
        &[
            "elicitation-sep1330-untitled-single",
            "elicitation-sep1330-titled-single",
            "elicitation-sep1330-legacy-enumnames",
            "elicitation-sep1330-untitled-multi",
            "elicitation-sep1330-titled-multi",
        ],
    ),
    ("resources-list", &[]),
    ("resources-read-text", &[]),
    ("resources-read-binary", &[]),
    ("resources-templates-read", &[]),
    ("resources-subscribe", &[]),
    ("resources-unsubscribe", &[]),
    ("prompts-list", &[]),
    ("prompts-get-simple", &[]),
    ("prompts-get-with-args", &[]),
    ("prompts-get-embedded-resource", &[]),
    ("prompts-get-with-image", &[]),
    ("dns-rebinding-protection", &["localhost-host-rebinding-rejected", "localhost-host-valid-accepted"]),
    (
        "server-session-lifecycle",
        &[
            "server-session-initialized-accepted",
            "server-session-delete-accepted",
            "server-session-terminated-returns-404",
        ],
    ),
    (
        "json-schema-2020-12",
        &[
            "json-schema-2020-12-tool-found",
            "json-schema-2020-12-$schema",
            "json-schema-2020-12-$defs",
            "json-schema-2020-12-additionalProperties",
            "sep-2106-composition-keywords-preserved",
            "sep-2106-conditional-keywords-preserved",
            "sep-2106-anchor-keyword-preserved",
        ],
    ),
    ("server-sse-polling", &["server-sse-priming-event", "server-sse-retry-field", "server-sse-disconnect-resume"]),
];

/// Scenarios whose checks all have names of their own.
const WITHOUT_OWN_CHECK: &[&str] = &[
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
    "server-session-lifecycle",
    "json-schema-2020-12",
    "server-sse-polling",
];

/// Scenarios that talk past the part of the suite that holds messages to the wire's schema.
const WITHOUT_WIRE_CHECK: &[&str] =
    &["server-sse-multiple-streams", "dns-rebinding-protection", "server-session-lifecycle", "server-sse-polling"];

/// The suite's own journal, and one note: a list may be answered without a stream.
const NOTES: &[&str] =
    &["outgoing-request", "incoming-response", "incoming-sse-event", "stream-closed", "server-sse-streams-functional"];

/// Everything about this scenario's checks that is not as it must be.
pub fn judge(scenario: &str, more: &[&str], checks: &[Value], wrong: &mut Vec<String>) {
    for check in checks {
        let (id, status) = (check["id"].as_str().unwrap(), check["status"].as_str().unwrap());
        let noted = status == "INFO" && NOTES.contains(&id);
        if status != "SUCCESS" && !noted {
            let why = [&check["errorMessage"], &check["details"]["message"]];
            let why = why.iter().find_map(|w| w.as_str()).unwrap_or("no reason given");
            wrong.push(format!("{scenario}: {id} is {status}: {why}"));
        }
    }
    let own = (!WITHOUT_OWN_CHECK.contains(&scenario)).then_some(scenario);
    let wire = (!WITHOUT_WIRE_CHECK.contains(&scenario)).then_some("wire-schema-valid");
    for required in own.iter().chain(&wire).chain(more) {
        if !checks.iter().any(|check| check["id"] == *required) {
            wrong.push(format!("{scenario}: {required} was not checked"));
        }
    }
}
