//! `make bench`: every figure of the design (section 9), each measured within this one run.
//!
//! Figures are ratios, or latencies with what they are compared to measured beside them, because machines differ and are
//! busy. A figure out of its bound is shown and never fails anything: a benchmark is not a test. The load comes from a
//! thread of this process with a client that does next to nothing, on the cores that the server uses, too.
//!
//! `BENCH_QUICK=1` takes a tenth of the time, to see that everything runs. Arguments: `--json`, and words of which one
//! must be part of a group's name (`sandbox`, `real`, `starts`, `neighbours`, `stops`, `steps`,
//! `platform`).

// The environment and standard output are the host's to ration, not a benchmark's.
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod client;
mod components;
mod cpu;
mod eight;
mod in_process;
mod native;
mod neighbours;
mod plan;
mod platform;
mod process;
mod real;
mod report;
mod sandbox;
mod starts;
mod statistics;
mod steps;
mod stops;

use plan::Plan;
use report::{Report, Row};

type Group = (&'static str, fn(&Plan) -> anyhow::Result<Vec<Row>>);

const GROUPS: &[Group] = &[
    ("sandbox", sandbox::rows),
    ("real", real::rows),
    ("starts", starts::rows),
    ("neighbours", neighbours::rows),
    ("stops", stops::rows),
    ("steps", steps::rows),
    ("platform", platform::rows),
];

fn main() -> anyhow::Result<()> {
    // `cargo bench` passes `--bench` on.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let json = words.iter().any(|word| word == "--json");
    let wanted: Vec<&String> = words.iter().filter(|word| !word.starts_with("--")).collect();
    let plan = Plan::from_environment();
    let mut report = Report::begin(&plan);
    for (name, measure) in GROUPS {
        if wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str())) {
            eprintln!("measuring: {name}");
            report.add(measure(&plan)?);
        }
    }
    match json {
        true => println!("{:#}", report.to_json()),
        false => print!("{report}"),
    }
    Ok(())
}
