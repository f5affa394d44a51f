//! An input schema of thirty steps, each of which asks the same twice.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    let step = |n: u32| format!(r##""d{n}":{{"anyOf":[{{"$ref":"#/$defs/d{0}"}},{{"$ref":"#/$defs/d{0}"}}]}}"##, n + 1);
    let steps: Vec<String> = (0..30).map(step).collect();
    let schema = format!(r##"{{"type":"object","$ref":"#/$defs/d0","$defs":{{"d30":true,{}}}}}"##, steps.join(","));
    vec![Declaration { input_schema: schema, ..good() }]
}

lists!(list);
