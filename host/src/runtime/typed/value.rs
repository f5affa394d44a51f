//! Values of WIT types in JSON: read from a tool's arguments, written into its result. What `schema` describes and this
//! reads are the same; the schema was checked before, so what fails here is what no schema can say.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value, json};
use wasmtime::component::Val;
use wasmtime::component::types::Type;

use super::names::in_json;
use super::schema::MAX_SAFE;

/// Values in one call's arguments, bytes of lists counted: a value takes some forty bytes, whatever it is.
const MAX_VALUES: usize = 500_000;

/// Reads the arguments of one call.
pub struct Reading {
    left: usize,
}

impl Reading {
    pub fn new() -> Reading {
        Reading { left: MAX_VALUES }
    }

    /// The error is the end of a sentence about the argument.
    pub fn read(&mut self, ty: &Type, json: &Value) -> Result<Val, String> {
        self.spend(1)?;
        Ok(match (ty, json) {
            (Type::Bool, Value::Bool(value)) => Val::Bool(*value),
            (Type::S8, _) => Val::S8(int(json)?),
            (Type::U8, _) => Val::U8(int(json)?),
            (Type::S16, _) => Val::S16(int(json)?),
            (Type::U16, _) => Val::U16(int(json)?),
            (Type::S32, _) => Val::S32(int(json)?),
            (Type::U32, _) => Val::U32(int(json)?),
            (Type::S64, _) => Val::S64(int(json)?),
            (Type::U64, _) => Val::U64(int(json)?),
            (Type::Float32, Value::Number(number)) => {
                // Infinite only when it was out of range.
                let value = number.as_f64().unwrap_or(f64::NAN) as f32;
                Val::Float32(if value.is_finite() { value } else { return Err("is out of range".into()) })
            }
            (Type::Float64, Value::Number(number)) => Val::Float64(number.as_f64().ok_or("is out of range")?),
            (Type::Char, Value::String(text)) => {
                let mut letters = text.chars();
                match (letters.next(), letters.next()) {
                    (Some(letter), None) => Val::Char(letter),
                    _ => return Err("is not one character".into()),
                }
            }
            (Type::String, Value::String(text)) => Val::String(text.clone()),
            (Type::List(list), Value::String(text)) if list.ty() == Type::U8 => {
                let bytes = STANDARD.decode(text).map_err(|why| format!("is not base64: {why}"))?;
                self.spend(bytes.len())?;
                Val::List(bytes.into_iter().map(Val::U8).collect())
            }
            (Type::List(list), Value::Array(items)) => {
                let ty = list.ty();
                Val::List(items.iter().map(|item| self.read(&ty, item)).collect::<Result<_, _>>()?)
            }
            (Type::Record(record), Value::Object(object)) => {
                let field = |field: wasmtime::component::types::Field<'_>| {
                    let given = object.get(&in_json(field.name)).unwrap_or(&Value::Null);
                    self.read(&field.ty, given).map(|value| (field.name.to_owned(), value))
                };
                Val::Record(record.fields().map(field).collect::<Result<_, _>>()?)
            }
            (Type::Tuple(tuple), Value::Array(items)) if items.len() == tuple.types().len() => {
                let item = |(ty, item): (Type, &Value)| self.read(&ty, item);
                Val::Tuple(tuple.types().zip(items).map(item).collect::<Result<_, _>>()?)
            }
            (Type::Option(_), Value::Null) => Val::Option(None),
            (Type::Option(option), given) => {
                let given = match option.ty() {
                    Type::Option(_) => given.get("some").ok_or("has no `some`")?,
                    _ => given,
                };
                Val::Option(Some(Box::new(self.read(&option.ty(), given)?)))
            }
            (Type::Enum(cases), Value::String(text)) => {
                Val::Enum(find(cases.names(), text).ok_or_else(|| unknown(text))?)
            }
            (Type::Flags(flags), Value::Array(items)) => {
                let flag = |item: &Value| {
                    let text = item.as_str().ok_or("holds something else than a name")?;
                    find(flags.names(), text).ok_or_else(|| unknown(text))
                };
                Val::Flags(items.iter().map(flag).collect::<Result<_, _>>()?)
            }
            (Type::Variant(variant), given) => {
                let (name, payload) = case(given)?;
                let case = variant.cases().find(|case| in_json(case.name) == name).ok_or_else(|| unknown(name))?;
                let payload = match (case.ty, payload) {
                    (Some(ty), Some(payload)) => Some(Box::new(self.read(&ty, payload)?)),
                    (None, None) => None,
                    _ => return Err(unknown(name)),
                };
                Val::Variant(case.name.to_owned(), payload)
            }
            (Type::Result(either), given) => {
                let (name, payload) = case(given)?;
                let mut side = |ty: Option<Type>| match ty {
                    Some(ty) => self.read(&ty, payload.unwrap_or(&Value::Null)).map(|value| Some(Box::new(value))),
                    None => Ok(None),
                };
                match name {
                    "ok" => Val::Result(Ok(side(either.ok())?)),
                    "err" => Val::Result(Err(side(either.err())?)),
                    _ => return Err(unknown(name)),
                }
            }
            _ => return Err("has another type than its schema says".into()),
        })
    }

    fn spend(&mut self, values: usize) -> Result<(), String> {
        self.left = self.left.checked_sub(values).ok_or(format!("holds over {MAX_VALUES} values"))?;
        Ok(())
    }
}

/// A result, as its schema says. Fails for a type that no schema was made for.
pub fn write(ty: &Type, value: Val) -> Result<Value, String> {
    Ok(match (ty, value) {
        (_, Val::Bool(value)) => value.into(),
        (_, Val::S8(value)) => value.into(),
        (_, Val::U8(value)) => value.into(),
        (_, Val::S16(value)) => value.into(),
        (_, Val::U16(value)) => value.into(),
        (_, Val::S32(value)) => value.into(),
        (_, Val::U32(value)) => value.into(),
        (_, Val::S64(value)) if value.unsigned_abs() <= MAX_SAFE as u64 => value.into(),
        (_, Val::U64(value)) if value <= MAX_SAFE as u64 => value.into(),
        (_, Val::S64(value)) => value.to_string().into(),
        (_, Val::U64(value)) => value.to_string().into(),
        // Through its text, so that 0.1 stays 0.1.
        (_, Val::Float32(value)) => float(value.to_string().parse().unwrap_or(f64::NAN)),
        (_, Val::Float64(value)) => float(value),
        (_, Val::Char(value)) => value.to_string().into(),
        (_, Val::String(value)) => value.into(),
        (Type::List(list), Val::List(items)) if list.ty() == Type::U8 => {
            let byte = |item| if let Val::U8(byte) = item { byte } else { 0 };
            STANDARD.encode(items.into_iter().map(byte).collect::<Vec<u8>>()).into()
        }
        (Type::List(list), Val::List(items)) => {
            let ty = list.ty();
            items.into_iter().map(|item| write(&ty, item)).collect::<Result<Vec<_>, _>>()?.into()
        }
        (Type::Record(record), Val::Record(fields)) => {
            let field = |(field, (_, value)): (wasmtime::component::types::Field<'_>, (String, Val))| {
                Ok::<_, String>((in_json(field.name), write(&field.ty, value)?))
            };
            Value::Object(record.fields().zip(fields).map(field).collect::<Result<Map<_, _>, _>>()?)
        }
        (Type::Tuple(tuple), Val::Tuple(items)) => {
            let item = |(ty, item): (Type, Val)| write(&ty, item);
            tuple.types().zip(items).map(item).collect::<Result<Vec<_>, _>>()?.into()
        }
        (Type::Option(_), Val::Option(None)) => Value::Null,
        (Type::Option(option), Val::Option(Some(value))) => match option.ty() {
            inner @ Type::Option(_) => json!({ "some": write(&inner, *value)? }),
            inner => write(&inner, *value)?,
        },
        (Type::Enum(_), Val::Enum(name)) => in_json(&name).into(),
        (Type::Flags(_), Val::Flags(names)) => names.iter().map(|name| in_json(name)).collect::<Vec<_>>().into(),
        (Type::Variant(variant), Val::Variant(name, payload)) => {
            let ty = variant.cases().find(|case| case.name == name).and_then(|case| case.ty);
            match ty.zip(payload) {
                Some((ty, payload)) => json!({ in_json(&name): write(&ty, *payload)? }),
                None => in_json(&name).into(),
            }
        }
        (Type::Result(either), Val::Result(result)) => {
            let (name, ty, payload) = match result {
                Ok(payload) => ("ok", either.ok(), payload),
                Err(payload) => ("err", either.err(), payload),
            };
            let payload = ty.zip(payload).map(|(ty, payload)| write(&ty, *payload)).transpose()?;
            json!({ name: payload })
        }
        (ty, _) => return Err(format!("a value of {ty:?} has no JSON")),
    })
}

/// JSON has no number for these three.
fn float(value: f64) -> Value {
    match Number::from_f64(value) {
        Some(number) => Value::Number(number),
        None if value.is_nan() => "NaN".into(),
        None if value > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

/// An integer as a number, also one written as `1.0`, or as digits.
fn int<T: TryFrom<i128>>(json: &Value) -> Result<T, String> {
    let value = match json {
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(value), ..) => value.into(),
            (None, Some(value), _) => value.into(),
            // The schema let only whole numbers within 2^53 pass.
            (None, None, Some(value)) if value.fract() == 0.0 && value.abs() <= MAX_SAFE as f64 => value as i128,
            _ => return Err("is not a whole number".into()),
        },
        Value::String(digits) => digits.parse::<i128>().map_err(|_| "is not a number".to_owned())?,
        _ => return Err("is not a number".into()),
    };
    T::try_from(value).map_err(|_| "is out of range".into())
}

/// `"name"` or `{"name": payload}`.
fn case(given: &Value) -> Result<(&str, Option<&Value>), String> {
    match given {
        Value::String(name) => Ok((name, None)),
        Value::Object(object) if object.len() == 1 => {
            object.iter().next().map(|(name, payload)| (name.as_str(), Some(payload))).ok_or_else(String::new)
        }
        _ => Err("is neither a case nor an object with one case".into()),
    }
}

fn find<'a>(mut names: impl Iterator<Item = &'a str>, text: &str) -> Option<String> {
    names.find(|name| in_json(name) == text).map(str::to_owned)
}

fn unknown(name: &str) -> String {
    format!("has no case {:?} of that shape", name.chars().take(64).collect::<String>())
}
