//! Finding the tasks of workers that died, and forgetting what nobody will ask for.

use std::sync::Arc;

use super::worker::worker_lost;
use super::{StoredCall, Tasks};
use crate::error::Result;

/// What a look for abandoned tasks found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    pub run_again: u32,
    pub failed: u32,
}

impl Tasks {
    /// Take over what dead workers left: run it again where that is safe, else fail it. Call at start and then regularly.
    pub async fn recover(self: &Arc<Self>) -> Result<Recovered> {
        let mut recovered = Recovered::default();
        for (tenant, id) in self.store.abandoned_tasks(self.settings.lease / 2).await? {
            let worker = self.new_worker();
            let Some(row) = self.store.claim_task(tenant, &id, &worker, self.settings.lease).await? else {
                continue;
            };
            if self.may_begin(&row) {
                recovered.run_again += 1;
                let tasks = self.clone();
                self.running.spawn(async move { tasks.run_claimed(row, worker).await });
            } else {
                recovered.failed += 1;
                let trace = StoredCall::of(&row).trace(row.trace_id);
                // The closing row first: should we die in between, the next one finds the task again.
                self.close_unfinished(&row, &worker_lost()).await?;
                self.fail(&row, Some(&worker), &trace, &worker_lost()).await?;
                self.observer.metrics.tasks_recovered(1, "failed");
            }
        }
        if recovered != Recovered::default() {
            tracing::warn!(
                run_again = recovered.run_again,
                failed = recovered.failed,
                "recovered tasks whose worker had ended"
            );
        }
        Ok(recovered)
    }

    /// Recover now and then, and delete what nobody will ask for any more, until the process stops.
    pub async fn housekeeping(self: Arc<Self>) {
        let mut every = tokio::time::interval(self.settings.lease);
        loop {
            tokio::select! {
                _ = every.tick() => {}
                () = self.stop.cancelled() => return,
            }
            if let Err(error) = self.recover().await {
                tracing::warn!(error = ?error, "abandoned tasks could not be looked for");
            }
            if let Err(error) = self.store.prune_tasks().await {
                tracing::warn!(error = ?error, "ended tasks could not be pruned");
            }
        }
    }
}
