//! Changes to an input that leave it JSON. Bytes that are flipped at random seldom get past the first parser; what lies
//! behind it wants documents with one member moved, copied, replaced or lost.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

/// One step in three is libFuzzer's own, so that broken JSON and broken UTF-8 stay in the race.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32, vocabulary: &[&str]) -> usize {
    let mut random = StdRng::seed_from_u64(seed.into());
    let parsed = serde_json::from_slice::<Value>(&data[..size]).ok().filter(|_| random.random_ratio(2, 3));
    let Some(mut document) = parsed else { return libfuzzer_sys::fuzzer_mutate(data, size, max_size) };
    for _ in 0..random.random_range(1..4) {
        change(&mut document, &mut random, vocabulary);
    }
    let text = document.to_string();
    if text.len() > max_size {
        return libfuzzer_sys::fuzzer_mutate(data, size, max_size);
    }
    data[..text.len()].copy_from_slice(text.as_bytes());
    text.len()
}

fn change(document: &mut Value, random: &mut StdRng, vocabulary: &[&str]) {
    let places = count(document);
    let donor = nth(document, &mut random.random_range(0..places)).expect("a place of the document").clone();
    let word = vocabulary[random.random_range(0..vocabulary.len())];
    let word: Value = serde_json::from_str(word).expect("a vocabulary is JSON");
    let place = nth(document, &mut random.random_range(0..places)).expect("a place of the document");
    match (random.random_range(0..8), place) {
        (0, place) => *place = donor,
        (1, place) => *place = word,
        (2, Value::Array(items)) => items.push(donor),
        (2, place) => *place = Value::Array(vec![place.take()]),
        (3, Value::Array(items)) if !items.is_empty() => drop(items.remove(random.random_range(0..items.len()))),
        (3, Value::Object(members)) if !members.is_empty() => {
            let name = members.keys().nth(random.random_range(0..members.len())).expect("one of them").clone();
            members.remove(&name);
        }
        (4, Value::Object(members)) if !members.is_empty() => {
            let name = members.keys().nth(random.random_range(0..members.len())).expect("one of them").clone();
            members.insert(name, donor);
        }
        (5, Value::Number(number)) => {
            let near = [0, 1, -1, i64::MAX, i64::MIN, number.as_i64().unwrap_or(0).wrapping_add(1)];
            *number = near[random.random_range(0..near.len())].into();
        }
        (5, Value::String(text)) => *text = text.repeat(random.random_range(0..4)),
        (_, Value::Object(members)) => match word {
            Value::Object(word) => members.extend(word),
            word => drop(members.insert("a".into(), word)),
        },
        (_, place) => *place = word,
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

/// The place that is reached after this many others, depth first.
fn nth<'v>(value: &'v mut Value, left: &mut usize) -> Option<&'v mut Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, left)),
        Value::Object(members) => members.values_mut().find_map(|member| nth(member, left)),
        _ => None,
    }
}
