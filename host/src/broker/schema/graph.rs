//! Where the keywords of a schema lead: to other subschemas at the same place, or at places below.
//!
//! Follows JSON Schema 2020-12 and draft-07 as far as reachability goes. Where the two differ, or where it cannot be known,
//! more is followed than will be evaluated, never less; what cannot be followed is refused.

use serde_json::{Map, Value};
use std::collections::HashMap;

/// More subschemas than any tool needs.
const MAX_SUBSCHEMAS: usize = 5_000;

#[derive(Default)]
pub struct Node<'s> {
    /// Evaluated at the same place.
    pub in_place: Vec<usize>,
    /// By the name of the member.
    pub properties: HashMap<&'s str, usize>,
    /// At the members that no name in `properties` names.
    additional: Vec<usize>,
    /// At any member.
    any_property: Vec<usize>,
    /// By the item's index.
    pub prefix: Vec<usize>,
    /// At any item.
    any_item: Vec<usize>,
    /// At the names of members.
    pub names: Vec<usize>,
}

impl Node<'_> {
    /// For the member of that name, or for one that nobody names.
    pub fn for_property(&self, name: Option<&str>) -> Vec<usize> {
        let own = name.and_then(|name| self.properties.get(name));
        let additional = self.additional.iter().filter(|_| own.is_none());
        own.into_iter().chain(additional).chain(&self.any_property).copied().collect()
    }

    pub fn for_item(&self, index: usize) -> Vec<usize> {
        self.prefix.get(index).into_iter().chain(&self.any_item).copied().collect()
    }
}

pub struct Graph<'s> {
    pub nodes: Vec<Node<'s>>,
    root: &'s Value,
    /// By address: each subschema is one node, however many references lead to it.
    known: HashMap<usize, usize>,
    waiting: Vec<(usize, &'s Map<String, Value>)>,
    anchors: HashMap<&'s str, Vec<&'s Value>>,
}

impl<'s> Graph<'s> {
    pub const ROOT: usize = 0;

    pub fn of(root: &'s Value) -> Result<Self, String> {
        let mut graph = Graph { nodes: vec![], root, known: HashMap::new(), waiting: vec![], anchors: HashMap::new() };
        graph.find_anchors(root);
        graph.node(root)?;
        while let Some((index, schema)) = graph.waiting.pop() {
            graph.nodes[index] = graph.read(schema)?;
        }
        Ok(graph)
    }

    fn find_anchors(&mut self, value: &'s Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.find_anchors(item)),
            Value::Object(members) => {
                for keyword in ["$anchor", "$dynamicAnchor", "$id"] {
                    let name = members.get(keyword).and_then(Value::as_str);
                    // Draft-07 writes an anchor as an `$id` that is a fragment alone.
                    let name = if keyword == "$id" { name.and_then(|id| id.strip_prefix('#')) } else { name };
                    if let Some(name) = name {
                        self.anchors.entry(name).or_default().push(value);
                    }
                }
                members.values().for_each(|member| self.find_anchors(member));
            }
            _ => {}
        }
    }

    fn node(&mut self, schema: &'s Value) -> Result<usize, String> {
        let address = std::ptr::from_ref(schema) as usize;
        if let Some(index) = self.known.get(&address) {
            return Ok(*index);
        }
        let index = self.nodes.len();
        if index == MAX_SUBSCHEMAS {
            return Err(format!("has more than {MAX_SUBSCHEMAS} subschemas"));
        }
        self.known.insert(address, index);
        self.nodes.push(Node::default());
        if let Value::Object(members) = schema {
            let own_id = members.get("$id").and_then(Value::as_str).is_some_and(|id| !id.starts_with('#'));
            if own_id && index != Self::ROOT {
                return Err("holds another schema with an $id of its own".into());
            }
            self.waiting.push((index, members));
        }
        Ok(index)
    }

    fn read(&mut self, schema: &'s Map<String, Value>) -> Result<Node<'s>, String> {
        let mut node = Node::default();
        for (keyword, value) in schema {
            match (keyword.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                    node.in_place.extend(self.referred(reference)?);
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => node.in_place.extend(self.nodes_of(schemas)?),
                ("not" | "if" | "then" | "else", schema) => node.in_place.push(self.node(schema)?),
                ("dependentSchemas" | "dependencies", Value::Object(schemas)) => {
                    node.in_place.extend(self.nodes_of(schemas.values().filter(|s| !s.is_array()))?);
                }
                ("properties", Value::Object(schemas)) => {
                    for (name, schema) in schemas {
                        node.properties.insert(name, self.node(schema)?);
                    }
                }
                ("patternProperties", Value::Object(schemas)) => {
                    node.any_property.extend(self.nodes_of(schemas.values())?);
                }
                ("additionalProperties", schema) => node.additional.push(self.node(schema)?),
                ("unevaluatedProperties", schema) => node.any_property.push(self.node(schema)?),
                ("propertyNames", schema) => node.names.push(self.node(schema)?),
                ("prefixItems" | "items", Value::Array(schemas)) => node.prefix = self.nodes_of(schemas)?,
                ("items" | "additionalItems" | "unevaluatedItems" | "contains", schema) => {
                    node.any_item.push(self.node(schema)?);
                }
                _ => {}
            }
        }
        // To know what is left over, everything else is asked once more.
        if schema.contains_key("unevaluatedProperties") || schema.contains_key("unevaluatedItems") {
            node.in_place.extend_from_within(..);
        }
        Ok(node)
    }

    fn nodes_of(&mut self, schemas: impl IntoIterator<Item = &'s Value>) -> Result<Vec<usize>, String> {
        schemas.into_iter().map(|schema| self.node(schema)).collect()
    }

    /// Everything that a reference may mean. A dynamic one may mean any anchor of that name.
    fn referred(&mut self, reference: &str) -> Result<Vec<usize>, String> {
        let outside = || format!("refers to {reference}, which is not in the same schema");
        let own_id = self.root.get("$id").and_then(Value::as_str).map(|id| id.trim_end_matches('#'));
        let local = own_id.and_then(|id| reference.strip_prefix(id)).unwrap_or(reference);
        match local.strip_prefix('#').or(local.is_empty().then_some("")) {
            None => Err(outside()),
            Some(pointer) if pointer.is_empty() || pointer.starts_with('/') => {
                if pointer.contains('%') {
                    return Err(format!("refers to {reference}: write references without percent signs"));
                }
                let target = self.root.pointer(pointer).ok_or_else(outside)?;
                Ok(vec![self.node(target)?])
            }
            Some(anchor) => {
                let targets = self.anchors.get(anchor).ok_or_else(outside)?.clone();
                self.nodes_of(targets)
            }
        }
    }
}
