//! Every check that stands between a file and the first call that it answers, in order, on one page.
//!
//! Whoever fails one is named with its reason and changes nothing: what served before goes on. The cheap checks come
//! before the dear ones, and nothing of a component runs before it is known to be what the operator let in.

use std::path::PathBuf;

use super::approvals::Applicant;
use super::request::BadRequest;
use super::signatures::{self, Component};
use super::surface::Surface;
use super::{Approvals, Blocked, Request, Who};
use crate::broker::{Catalog, Checked};
use crate::config::{Grants, Policy};
use crate::model::PluginId;
use crate::runtime::{Plugin, Runtime};

/// Largest component, in bytes. Those of JavaScript and Python have 12 to 40 MB; the whole file is held while it is checked.
pub const MAX_COMPONENT_BYTES: u64 = 128 << 20;

/// A component that may come to serve.
pub struct Candidate {
    pub id: PluginId,
    /// The file in the operator's directory. What is `kept` was read from the bridge's own copy instead.
    pub path: PathBuf,
    pub wasm: Vec<u8>,
    /// SHA-256, in hex.
    pub digest: String,
    /// The file that its signature stands beside.
    pub signed: PathBuf,
    pub who: Option<Who>,
    /// It has served before, and is taken from the history because the file in the directory may not serve.
    pub kept: bool,
}

/// What candidates are held against.
pub(super) struct Desk<'a> {
    pub runtime: &'a Runtime,
    pub catalog: &'a Catalog,
    pub grants: &'a Grants,
    pub policy: &'a Policy,
    pub approvals: &'a Approvals,
}

impl Desk<'_> {
    /// The name and the size of its file were right, or it would not be a [`Candidate`] (`files::read`).
    pub async fn admit(&self, candidate: &Candidate) -> Result<Checked, Blocked> {
        let blocked = |why: Blocked| Blocked { digest: Some(candidate.digest.clone()), ..why };
        let Candidate { id, wasm, digest, signed, .. } = candidate;
        // The digest's pin and the signature, before anything is compiled.
        let component = Component { id, path: Some(signed), wasm, digest, grants: self.grants };
        signatures::check(self.policy, &component)?;
        // What it asks for beyond what the version before asked for, and beyond what is granted.
        let asks = Request::read(wasm).map_err(|why| blocked(bad_request(&why)))?.unwrap_or_default();
        let applicant = Applicant { id, digest, grants: self.grants, asks: &asks, kept: candidate.kept };
        self.approvals.consent(self.policy, &applicant)?;
        // Compiled, its imports held against its grants, and asked for what it offers.
        let loading = Plugin::load(self.runtime, candidate.id.clone(), &candidate.wasm, self.grants.clone());
        let plugin = loading.await.map_err(|rejected| blocked(rejected.into()))?;
        // Its schemas, and its names beside those of others.
        let checked = self.catalog.check(plugin.into()).map_err(|rejected| blocked(rejected.into()))?;
        // What changed since the operator agreed. Last, because it is about what is offered.
        let plugin = checked.plugin();
        let mut says = Surface::of(plugin.tools(), plugin.offers());
        if !plugin.declares_tools() {
            says = says.without_annotations();
        }
        self.approvals.admit(self.policy, &applicant, &says)?;
        Ok(checked)
    }
}

/// What it asks for is not known, so nobody can have agreed to it.
fn bad_request(why: &BadRequest) -> Blocked {
    Blocked::refused("bad_request", format!("{why}. Build it again with `plugin build`."))
}
