//! The JSON Schema (2020-12) of a WIT type, as `value` reads and writes it.
//!
//! A type that has no JSON, such as a resource, is refused with the end of a sentence: "is a resource, …".

use serde_json::{Map, Value, json};
use wasmtime::component::types::Type;

use super::names::in_json;

/// Integers beyond this are not the same number in every client, and travel as text.
pub const MAX_SAFE: i64 = (1 << 53) - 1;

/// What one tool's schemas may hold. Types share parts, so a small component can describe a huge one.
const MAX_TYPES: usize = 2_000;

/// Makes the schemas of one tool.
pub struct Schemas {
    left: usize,
}

impl Schemas {
    pub fn new() -> Schemas {
        Schemas { left: MAX_TYPES }
    }

    /// `result`: of what the function returns; there, a float may be none that JSON has a number for.
    pub fn of(&mut self, ty: &Type, result: bool) -> Result<Value, String> {
        self.left = self.left.checked_sub(1).ok_or(format!("has over {MAX_TYPES} types in it"))?;
        let int = |least: i64, most: i64| Ok(json!({ "type": "integer", "minimum": least, "maximum": most }));
        let big = |least: i64, pattern: &str| {
            Ok(json!({
                "type": ["integer", "string"],
                "minimum": least,
                "maximum": MAX_SAFE,
                "pattern": pattern,
                "description": "A string of digits when beyond 2^53-1."
            }))
        };
        match ty {
            Type::Bool => Ok(json!({ "type": "boolean" })),
            Type::S8 => int(i8::MIN.into(), i8::MAX.into()),
            Type::U8 => int(0, u8::MAX.into()),
            Type::S16 => int(i16::MIN.into(), i16::MAX.into()),
            Type::U16 => int(0, u16::MAX.into()),
            Type::S32 => int(i32::MIN.into(), i32::MAX.into()),
            Type::U32 => int(0, u32::MAX.into()),
            Type::S64 => big(-MAX_SAFE, "^-?[0-9]{1,19}$"),
            Type::U64 => big(0, "^[0-9]{1,20}$"),
            Type::Float32 if !result => Ok(json!({ "type": "number", "minimum": f32::MIN, "maximum": f32::MAX })),
            Type::Float64 if !result => Ok(json!({ "type": "number" })),
            Type::Float32 | Type::Float64 => Ok(json!({
                "anyOf": [{ "type": "number" }, { "enum": ["NaN", "Infinity", "-Infinity"] }]
            })),
            Type::Char => Ok(json!({ "type": "string", "minLength": 1, "maxLength": 1 })),
            Type::String => Ok(json!({ "type": "string" })),
            Type::List(list) if list.ty() == Type::U8 => {
                Ok(json!({ "type": "string", "contentEncoding": "base64", "description": "Bytes in base64." }))
            }
            Type::List(list) => Ok(json!({ "type": "array", "items": self.of(&list.ty(), result)? })),
            Type::Record(record) => {
                let fields = record.fields().map(|field| (field.name.to_owned(), field.ty));
                self.object(fields, result)
            }
            Type::Tuple(tuple) => {
                let items = tuple.types().map(|ty| self.of(&ty, result)).collect::<Result<Vec<_>, _>>()?;
                let count = items.len();
                Ok(json!({
                    "type": "array", "prefixItems": items, "items": false, "minItems": count, "maxItems": count
                }))
            }
            Type::Option(option) => {
                let some = match option.ty() {
                    // Else `none` and `some(none)` would both be null.
                    inner @ Type::Option(_) => tagged("some", self.of(&inner, result)?),
                    inner => self.of(&inner, result)?,
                };
                Ok(json!({ "anyOf": [some, { "type": "null" }] }))
            }
            Type::Enum(cases) => Ok(one_of(cases.names().map(in_json).collect())),
            Type::Flags(flags) => {
                let names = flags.names().map(in_json).collect();
                Ok(json!({ "type": "array", "items": one_of(names), "uniqueItems": true }))
            }
            Type::Variant(variant) => {
                let (mut bare, mut all) = (vec![], vec![]);
                for case in variant.cases() {
                    match case.ty {
                        Some(ty) => all.push(tagged(&in_json(case.name), self.of(&ty, result)?)),
                        None => bare.push(in_json(case.name)),
                    }
                }
                if !bare.is_empty() {
                    all.insert(0, one_of(bare));
                }
                Ok(if all.len() == 1 { all.remove(0) } else { json!({ "anyOf": all }) })
            }
            Type::Result(either) => {
                let mut side = |name, ty: Option<Type>| {
                    let of = ty.map_or(Ok(json!({ "type": "null" })), |ty| self.of(&ty, result));
                    of.map(|of| tagged(name, of))
                };
                Ok(json!({ "anyOf": [side("ok", either.ok())?, side("err", either.err())?] }))
            }
            Type::Own(_) | Type::Borrow(_) => none("resource"),
            Type::Future(_) => none("future"),
            Type::Stream(_) => none("stream"),
            Type::Map(_) => none("map"),
            Type::FixedLengthList(_) => none("list of fixed length"),
            Type::ErrorContext => none("error context"),
        }
    }

    /// An object with these properties and no others. What may be none may be left out.
    pub fn object(&mut self, fields: impl Iterator<Item = (String, Type)>, result: bool) -> Result<Value, String> {
        let (mut properties, mut required) = (Map::new(), vec![]);
        for (name, ty) in fields {
            let name = in_json(&name);
            if result || !matches!(ty, Type::Option(_)) {
                required.push(name.clone());
            }
            let of = self.of(&ty, result).map_err(|why| format!("{name} {why}"))?;
            properties.insert(name, of);
        }
        Ok(json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false
        }))
    }
}

/// The object that stands for a case with a payload.
fn tagged(case: &str, payload: Value) -> Value {
    json!({ "type": "object", "properties": { case: payload }, "required": [case], "additionalProperties": false })
}

fn one_of(names: Vec<String>) -> Value {
    json!({ "type": "string", "enum": names })
}

fn none(what: &str) -> Result<Value, String> {
    Err(format!("is a {what}, which has no JSON"))
}

/// A type as WIT writes it; WIT's own names of types are not in a component, so `record` and its like stand alone.
pub fn in_wit(ty: &Type) -> String {
    let or_none = |ty: Option<Type>| ty.map_or("_".to_owned(), |ty| in_wit(&ty));
    match ty {
        Type::Bool => "bool".into(),
        Type::S8 => "s8".into(),
        Type::U8 => "u8".into(),
        Type::S16 => "s16".into(),
        Type::U16 => "u16".into(),
        Type::S32 => "s32".into(),
        Type::U32 => "u32".into(),
        Type::S64 => "s64".into(),
        Type::U64 => "u64".into(),
        Type::Float32 => "f32".into(),
        Type::Float64 => "f64".into(),
        Type::Char => "char".into(),
        Type::String => "string".into(),
        Type::List(list) => format!("list<{}>", in_wit(&list.ty())),
        Type::Tuple(tuple) => {
            format!("tuple<{}>", tuple.types().map(|ty| in_wit(&ty)).collect::<Vec<_>>().join(", "))
        }
        Type::Option(option) => format!("option<{}>", in_wit(&option.ty())),
        Type::Result(either) => format!("result<{}, {}>", or_none(either.ok()), or_none(either.err())),
        Type::Record(_) => "record".into(),
        Type::Variant(_) => "variant".into(),
        Type::Enum(_) => "enum".into(),
        Type::Flags(_) => "flags".into(),
        _ => "other".into(),
    }
}
