//! A tool whose input schema uses what JSON Schema 2020-12 has and older dialects have not. It must reach clients as it
//! is written here, and arguments must be held to all of it.

use cyberos_plugin_sdk::prelude::*;
use cyberos_plugin_sdk::text;
use schemars::{Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

use crate::content::answer;

/// Written by hand, because types do not derive to anchors and conditions.
#[derive(Deserialize)]
pub struct Contact(Map<String, Value>);

impl JsonSchema for Contact {
    fn schema_name() -> Cow<'static, str> {
        "Contact".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "$anchor": "addressDef",
                    "type": "object",
                    "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
                },
            },
            "properties": {
                "name": { "type": "string" },
                "address": { "$ref": "#/$defs/address" },
                "contactMethod": { "type": "string", "enum": ["phone", "email"] },
                "phone": { "type": "string" },
                "email": { "type": "string" },
            },
            "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
            "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
            "then": { "required": ["phone"] },
            "else": { "required": ["email"] },
            "additionalProperties": false,
        })
    }
}

fixture!(JsonSchema202012, "json_schema_2020_12_tool", "JSON Schema 2020-12", "Tool with JSON Schema 2020-12 features",
    Contact => ToolResult, |Contact(contact)| Ok(answer(vec![text(Value::Object(contact).to_string())])));
