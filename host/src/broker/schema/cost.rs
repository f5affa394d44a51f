//! What a check can cost at most, known before it is made. References let a small schema ask the same question of a
//! value over and over: a schema that a plugin wrote, or a value that a caller nested, could otherwise occupy a worker
//! for hours or use up its stack.
//!
//! Counted are evaluations of a subschema at one place of a value, by how deep the value is, as if no keyword ever cut an
//! evaluation short. Knows nothing of what the keywords mean beyond where they lead.

use serde_json::Value;
use std::collections::HashMap;

use super::graph::{Graph, Node};

/// Evaluations that one check may make, some 20 ns each.
const MAX_EVALUATIONS: u64 = 10_000_000;
/// Subschemas that may be open at once, some 300 bytes of stack each.
const MAX_OPEN: u64 = 1_500;
/// Steps of the analysis itself.
const MAX_STEPS: usize = 200_000;
/// No JSON that we read is deeper.
const DEEPEST: usize = 128;
/// A value of this many places is larger than any that we read.
const MOST_PLACES: u64 = 600_000;

#[derive(Clone, Copy, PartialEq, Debug)]
struct Bound {
    evaluations: u64,
    open: u64,
}

#[derive(Debug)]
pub struct Cost {
    /// For values of each depth; deeper ones cost as much as the last.
    by_depth: Vec<Bound>,
}

impl Cost {
    /// Refuses a schema with which even a flat value could not be checked.
    pub fn of(schema: &Value) -> Result<Cost, String> {
        let graph = Graph::of(schema)?;
        let cost = Cost { by_depth: bounds(&graph)? };
        match cost.allows_size(1, 1) {
            true => Ok(cost),
            false => Err("can ask too much of one value: its references multiply or go on for too long".into()),
        }
    }

    /// Whether this value can be checked in bounded time, on a bounded stack.
    pub fn allows(&self, value: &Value) -> bool {
        // Most schemas are harmless whatever comes, and then nobody counts.
        if self.allows_size(DEEPEST, MOST_PLACES) {
            return true;
        }
        let (depth, places) = size(value);
        self.allows_size(depth, places)
    }

    fn allows_size(&self, depth: usize, places: u64) -> bool {
        self.by_depth[depth.min(self.by_depth.len() - 1)].allows(places)
    }
}

impl Bound {
    fn allows(self, places: u64) -> bool {
        self.evaluations.saturating_mul(places) <= MAX_EVALUATIONS && self.open <= MAX_OPEN
    }
}

fn size(value: &Value) -> (usize, u64) {
    let both = |(depth, places): (usize, u64), value: &Value| {
        let (d, p) = size(value);
        (depth.max(d), places + p)
    };
    let (depth, places) = match value {
        Value::Array(items) => items.iter().fold((0, 0), both),
        Value::Object(members) => members.values().fold((0, 0), both),
        _ => return (0, 1),
    };
    (depth + 1, places + 1)
}

/// What is evaluated at one place once a subschema is: itself and all that it leads to without going deeper.
struct Here {
    /// Subschema, and how many times.
    evaluated: Vec<(usize, u64)>,
    /// The longest way among them.
    open: u64,
}

fn bounds(graph: &Graph<'_>) -> Result<Vec<Bound>, String> {
    let here = all_here(graph)?;
    let places: Vec<Vec<Group>> = here.iter().map(|here| groups(graph, here)).collect();
    let flat =
        |here: &Here| Bound { evaluations: sum(here.evaluated.iter().map(|(_, times)| *times)), open: here.open };
    let mut last: Vec<Bound> = here.iter().map(flat).collect();
    let mut by_depth = vec![last[Graph::ROOT]];
    for _ in 1..=DEEPEST {
        let deeper = |node: usize| {
            let below =
                |group: &Group| sum(group.iter().map(|(to, times)| times.saturating_mul(last[*to].evaluations)));
            let evaluations = places[node].iter().map(below).max().unwrap_or(0);
            let open = places[node].iter().flatten().map(|(to, _)| last[*to].open).max().unwrap_or(0);
            let own = flat(&here[node]);
            Bound { evaluations: own.evaluations.max(evaluations), open: own.open + open }
        };
        let next: Vec<Bound> = (0..here.len()).map(deeper).collect();
        by_depth.push(next[Graph::ROOT]);
        // Nothing changes any more, or no deeper value is allowed anyway.
        if next == last || !next[Graph::ROOT].allows(1) {
            break;
        }
        last = next;
    }
    Ok(by_depth)
}

fn all_here(graph: &Graph<'_>) -> Result<Vec<Here>, String> {
    let mut done: Vec<Option<Here>> = graph.nodes.iter().map(|_| None).collect();
    let mut steps = 0;
    for start in 0..graph.nodes.len() {
        // Depth first without recursion: a chain of references may be longer than our own stack.
        let mut open = vec![(start, 0)];
        let mut is_open = vec![false; if done[start].is_none() { graph.nodes.len() } else { 0 }];
        while let Some((node, next)) = open.pop() {
            steps += 1;
            if done[node].is_some() {
                continue;
            }
            is_open[node] = true;
            if let Some(to) = graph.nodes[node].in_place.get(next) {
                if is_open[*to] && done[*to].is_none() {
                    return Err("refers to itself without end".into());
                }
                open.extend([(node, next + 1), (*to, 0)]);
                continue;
            }
            let mut evaluated = HashMap::from([(node, 1_u64)]);
            let mut longest = 0;
            for to in &graph.nodes[node].in_place {
                let to = done[*to].as_ref().expect("it was visited before");
                longest = longest.max(to.open);
                steps += to.evaluated.len();
                for (node, times) in &to.evaluated {
                    let sum = evaluated.entry(*node).or_default();
                    *sum = sum.saturating_add(*times);
                }
            }
            if steps > MAX_STEPS {
                return Err("has too many references".into());
            }
            done[node] = Some(Here { evaluated: evaluated.into_iter().collect(), open: longest + 1 });
        }
    }
    Ok(done.into_iter().map(|here| here.expect("all were visited")).collect())
}

/// Subschemas that meet at one place below, and how many times each.
type Group = Vec<(usize, u64)>;

/// One group for each place below that can be told apart.
fn groups(graph: &Graph<'_>, here: &Here) -> Vec<Group> {
    let all = || here.evaluated.iter().map(|(node, times)| (&graph.nodes[*node], *times));
    let group = |to: &dyn Fn(&Node<'_>) -> Vec<usize>| -> Group {
        all().flat_map(|(node, times)| to(node).into_iter().map(move |to| (to, times))).collect()
    };
    let mut names: Vec<&str> = all().flat_map(|(node, _)| node.properties.keys().copied()).collect();
    names.sort_unstable();
    names.dedup();
    let mut groups: Vec<Group> = names.into_iter().map(|name| group(&|node| node.for_property(Some(name)))).collect();
    groups.push(group(&|node| node.for_property(None)));
    let prefix = all().map(|(node, _)| node.prefix.len()).max().unwrap_or(0);
    groups.extend((0..=prefix).map(|index| group(&|node| node.for_item(index))));
    groups.push(group(&|node| node.names.clone()));
    groups
}

fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!({}), |value, _| json!({ "a": value }))
    }

    #[test]
    fn what_asks_once_of_each_place_is_harmless_at_any_depth() {
        for schema in [
            json!({ "type": "object", "properties": { "a": { "$ref": "#" }, "b": { "$ref": "#" } } }),
            json!({ "type": "object", "properties": { "a": { "$ref": "#" } }, "additionalProperties": { "$ref": "#" } }),
            json!({ "type": "object", "$defs": { "e": { "oneOf": [
                { "properties": { "and": { "type": "array", "items": { "$ref": "#/$defs/e" } } } },
                { "properties": { "not": { "$ref": "#/$defs/e" } } },
            ] } }, "properties": { "a": { "$ref": "#/$defs/e" } } }),
        ] {
            assert!(Cost::of(&schema).unwrap().allows(&nested(120)), "{schema}");
        }
    }

    #[test]
    fn what_asks_twice_at_each_step_down_is_for_shallow_values() {
        let schema = json!({ "type": "object", "anyOf": [
            { "properties": { "a": { "$ref": "#" } } },
            { "properties": { "a": { "$ref": "#" } } },
        ] });
        let cost = Cost::of(&schema).unwrap();
        assert!(cost.allows(&nested(12)) && !cost.allows(&nested(40)));
    }

    #[test]
    fn what_multiplies_or_never_ends_is_refused() {
        let mut definitions = json!({ "d30": true });
        for step in 0..30 {
            let next = json!({ "$ref": format!("#/$defs/d{}", step + 1) });
            definitions[format!("d{step}")] = json!({ "anyOf": [next, next] });
        }
        let doubling = json!({ "type": "object", "$ref": "#/$defs/d0", "$defs": definitions });
        assert!(Cost::of(&doubling).unwrap_err().contains("too much"));
        let endless = json!({ "type": "object", "allOf": [{ "$ref": "#" }] });
        assert!(Cost::of(&endless).unwrap_err().contains("without end"));
    }
}
