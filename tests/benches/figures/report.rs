//! The table: what was measured, its bound, whether it holds, and on which machine.

use serde_json::{Value, json};
use std::fmt;

use crate::plan::Plan;

#[derive(Clone, Copy)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// Shown because it explains another row.
    None,
}

pub struct Row {
    pub what: String,
    pub bound: Bound,
    pub value: f64,
    pub unit: &'static str,
    /// What the figure was made of.
    pub note: String,
}

impl Row {
    pub fn new(what: impl Into<String>, bound: Bound, value: f64, unit: &'static str) -> Row {
        Row { what: what.into(), bound, value, unit, note: String::new() }
    }

    pub fn note(self, note: impl Into<String>) -> Row {
        Row { note: note.into(), ..self }
    }

    fn holds(&self) -> Option<bool> {
        match self.bound {
            Bound::AtLeast(bound) => Some(self.value >= bound),
            Bound::AtMost(bound) => Some(self.value <= bound),
            Bound::None => None,
        }
    }

    fn verdict(&self) -> &'static str {
        match self.holds() {
            Some(true) => "ok",
            Some(false) => "MISS",
            None => "",
        }
    }
}

pub struct Report {
    machine: Vec<(&'static str, String)>,
    rows: Vec<Row>,
}

impl Report {
    pub fn begin(plan: &Plan) -> Report {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let model = read("/proc/cpuinfo")
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
            .map_or_else(|| "unknown".into(), |(_, model)| model.to_owned());
        Report {
            machine: vec![
                ("cores", cores.to_string()),
                ("processor", model),
                ("kernel", read("/proc/sys/kernel/osrelease")),
                ("load before", read("/proc/loadavg")),
                ("run", if plan.quick { "quick: figures mean little".into() } else { "full".into() }),
            ],
            rows: vec![],
        }
    }

    pub fn add(&mut self, rows: Vec<Row>) {
        self.rows.extend(rows);
    }

    pub fn to_json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let (at_least, at_most) = match row.bound {
                Bound::AtLeast(bound) => (Some(bound), None),
                Bound::AtMost(bound) => (None, Some(bound)),
                Bound::None => (None, None),
            };
            json!({
                "what": row.what, "value": row.value, "unit": row.unit, "at_least": at_least, "at_most": at_most,
                "ok": row.holds(), "note": row.note,
            })
        });
        let machine: serde_json::Map<_, _> =
            self.machine.iter().map(|(name, value)| ((*name).to_owned(), value.as_str().into())).collect();
        json!({ "machine": machine, "rows": rows.collect::<Vec<_>>() })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.machine {
            writeln!(f, "{name:<12} {value}")?;
        }
        let width = self.rows.iter().map(|row| row.what.chars().count()).max().unwrap_or(0);
        writeln!(f, "\n{:<width$} | {:>12} | {:>14} |      | ", "row", "bound", "measured")?;
        for row in &self.rows {
            let bound = match row.bound {
                Bound::AtLeast(bound) => format!("≥ {}", figure(bound)),
                Bound::AtMost(bound) => format!("≤ {}", figure(bound)),
                Bound::None => String::new(),
            };
            let measured = format!("{} {}", figure(row.value), row.unit);
            writeln!(f, "{:<width$} | {bound:>12} | {measured:>14} | {:<4} | {}", row.what, row.verdict(), row.note)?;
        }
        Ok(())
    }
}

/// Three digits that mean something.
pub fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
