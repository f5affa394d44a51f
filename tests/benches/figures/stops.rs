//! Runaway guests: how long after the cancellation, or after the deadline, a call is over and its instance is free.

use cyberos_plugin_host::app::Bridge;
use cyberos_plugin_host::error::Reason;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

use crate::components;
use crate::in_process::{self, bridge, executor};
use crate::plan::Plan;
use crate::report::{Bound, Row};
use crate::statistics::{median, millis, percentile};

const DEADLINE: Duration = Duration::from_millis(300);
/// Others that spin meanwhile, more than there are threads.
const SPINNERS: usize = 4;

pub fn rows(plan: &Plan) -> anyhow::Result<Vec<Row>> {
    let home = tempfile::tempdir()?;
    let limits = format!("deadline_ms = {}, failures_in_a_row = 0", DEADLINE.as_millis());
    let plugins = components::with_misbehaviour(home.path(), &limits)?.display().to_string();
    let executor = executor(std::thread::available_parallelism()?.get())?;
    let bridge = Arc::new(executor.block_on(bridge(&home.path().join("state"), &["--plugins", &plugins], None))?);
    let noise: Vec<_> = (0..SPINNERS).map(|_| executor.spawn(spin_without_end(bridge.clone()))).collect();
    let (cancelled, late) = executor.block_on(executor.spawn(measure(bridge.clone(), plan.starts)))??;
    noise.iter().for_each(|spinner| spinner.abort());
    let row = |what, took: &[f64]| {
        Row::new(what, Bound::AtMost(100.0), percentile(took, 1.0), "ms").note(format!(
            "{:.2} ms median of {}; {SPINNERS} others spin",
            median(took),
            took.len()
        ))
    };
    Ok(vec![
        row("cancelled guest stopped, slowest", &cancelled),
        row("guest stopped after its deadline, slowest", &late),
    ])
}

async fn spin_without_end(bridge: Arc<Bridge>) {
    loop {
        let _ = in_process::call(&bridge, "test.spins_forever", &json!({}), CancellationToken::new()).await;
    }
}

/// In milliseconds, of guests that spin and of guests that wait.
async fn measure(bridge: Arc<Bridge>, times: usize) -> anyhow::Result<(Vec<f64>, Vec<f64>)> {
    let (mut cancelled, mut late) = (vec![], vec![]);
    for (tool, arguments) in
        [("test.spins_forever", json!({})), ("test.sleeps", json!({ "ms": 3_600_000 }))].iter().cycle().take(times)
    {
        let cancel = CancellationToken::new();
        let canceller = tokio::spawn({
            let cancel = cancel.clone();
            async move {
                tokio::time::sleep(DEADLINE / 10).await;
                let at = Instant::now();
                cancel.cancel();
                at
            }
        });
        let outcome = in_process::call(&bridge, tool, arguments, cancel).await;
        let ended = Instant::now();
        anyhow::ensure!(outcome.is_err_and(|e| e.reason() == Reason::Cancelled), "{tool} was cancelled");
        cancelled.push(ended - canceller.await?);

        let started = Instant::now();
        let outcome = in_process::call(&bridge, tool, arguments, CancellationToken::new()).await;
        let took = started.elapsed();
        match outcome {
            Err(error) if error.reason() == Reason::Deadline => late.push(took.saturating_sub(DEADLINE)),
            // With enough of the processor to itself, it runs out of fuel first.
            Err(error) if error.reason() == Reason::OutOfFuel => {}
            Err(error) => anyhow::bail!("{tool} ended for another reason: {error:?}"),
            Ok(_) => anyhow::bail!("{tool} came to an end"),
        }
    }
    Ok((millis(&cancelled), millis(&late)))
}
