//! Members that several shapes of this revision have: what is shown of a thing, and `_meta`.

use serde_json::{Map, Value};

use crate::model::{Presentation, without_reserved};

/// `name` and what a client shows beside it.
pub fn shown(name: &str, shown: &Presentation) -> Map<String, Value> {
    let mut wire = Map::new();
    wire.insert("name".into(), name.into());
    wire.insert("title".into(), shown.title.as_str().into());
    wire.insert("description".into(), shown.description.as_str().into());
    if !shown.icons.is_empty() {
        wire.insert("icons".into(), shown.icons.clone().into());
    }
    insert_meta(&mut wire, shown.meta.clone());
    wire
}

pub fn insert_some(wire: &mut Map<String, Value>, member: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        wire.insert(member.into(), value.into());
    }
}

/// A plugin's `_meta`, without what it may not say.
pub fn insert_meta(wire: &mut Map<String, Value>, meta: Option<Value>) {
    if let Some(Value::Object(meta)) = meta {
        let meta = without_reserved(meta);
        if !meta.is_empty() {
            wire.insert("_meta".into(), meta.into());
        }
    }
}
