//! What has changed goes into the history and the audit log, once, by whoever serves.

use std::path::Path;

use super::super::Version;
use super::super::files;
use super::super::held::{self, Held};
use super::{PluginSet, State, blocking};
use crate::model::PluginId;

impl PluginSet {
    /// Into the history and the audit log, if it is not there yet.
    pub(super) async fn write_down(&self, state: &mut State, id: &PluginId) {
        let (Some(history), Some(charge)) = (&state.history, &state.charge) else { return };
        let held = state.held.get_mut(id).expect("it is held");
        let record = held.record();
        if held.recorded.as_ref() == Some(&record) {
            return;
        }
        let in_file = |now: &&Version| !held.kept && held.seen.as_ref() == Some(&now.digest);
        let kept = record.serving.as_ref().filter(in_file).map(|now| (now.digest.clone(), held.path.clone()));
        let (history, written_of, written) = (history.clone(), id.clone(), record.clone());
        let written = blocking(move || {
            // Before the record names it: what a record names is there.
            if let Some((digest, path)) = kept
                && let Err(error) = history.keep_file(&written_of, &digest, &path)
            {
                tracing::warn!(plugin = %written_of, %error, "a version could not be kept for a rollback");
            }
            history.write_down(&written_of, &written)
        });
        let before = match written.await {
            Ok(None) => None,
            Ok(Some(written)) => {
                written.forgotten.iter().for_each(|digest| self.runtime.forget_compiled(digest));
                Some(written.before)
            }
            Err(error) => {
                tracing::warn!(plugin = %id, %error, "what serves could not be written down");
                Some(held.recorded.clone().unwrap_or_default())
            }
        };
        held.recorded = Some(record.clone());
        let Some(before) = before else { return };
        let kind = held.blocked.as_ref().map(|blocked| blocked.kind);
        for (kind, body) in held::rows(id, &before, &record, kind, (held.who.as_ref(), state.grants.who())) {
            charge.audit.note(kind, body).await;
        }
    }

    pub(super) async fn write_down_removal(&self, state: &mut State, id: &PluginId, held: Held, directory: &Path) {
        let (Some(history), Some(charge)) = (&state.history, &state.charge) else { return };
        let record = held.record_of_removed();
        let (history, written_of, written) = (history.clone(), id.clone(), record.clone());
        let before = match blocking(move || history.write_down(&written_of, &written)).await {
            Ok(None) => return,
            Ok(Some(written)) => written.before,
            Err(error) => {
                tracing::warn!(plugin = %id, %error, "a removal could not be written down");
                held.recorded.unwrap_or_default()
            }
        };
        for (kind, body) in held::rows(id, &before, &record, None, (files::owner(directory).as_ref(), None)) {
            charge.audit.note(kind, body).await;
        }
    }

    pub(super) async fn write_down_misnamed(&self, state: &mut State) {
        let (Some(history), Some(charge)) = (&state.history, &state.charge) else { return };
        let Some(names) = state.misnamed.take_unwritten() else { return };
        let history = history.clone();
        let new = match blocking(move || history.write_down_misnamed(&names).map_err(|error| (error, names))).await {
            Ok(new) => new,
            Err((error, names)) => {
                tracing::warn!(%error, "which files are misnamed could not be written down");
                names.into_iter().collect()
            }
        };
        for (kind, body) in state.misnamed.rows(&new) {
            charge.audit.note(kind, body).await;
        }
    }
}
