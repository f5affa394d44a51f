//! What is listed at one moment, kept to see afterwards for whom a swap changed it.

use std::sync::Arc;

use super::Tools;
use crate::auth::Caller;

#[derive(Clone)]
pub struct Lists(Arc<Tools>);

/// Which lists are others than before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    pub tools: bool,
    pub prompts: bool,
    /// Or templates.
    pub resources: bool,
}

impl Lists {
    pub(super) fn new(tools: Arc<Tools>) -> Lists {
        Lists(tools)
    }

    /// What this caller sees otherwise than before. A list in which nothing that may be seen has changed is the same list:
    /// nobody learns that there is something to be hidden.
    pub fn changed_since(&self, before: &Lists, caller: &Caller) -> Changed {
        let (now, then) = (&self.0, &before.0);
        if Arc::ptr_eq(now, then) {
            return Changed::default();
        }
        let tools = now.visible_to(caller).map(|e| &e.tool).ne(then.visible_to(caller).map(|e| &e.tool));
        let (new, old) = (&now.shelf, &then.shelf);
        let resources = || differ(&new.resources_for(caller), &old.resources_for(caller), |one| &one.declared);
        let templates = || differ(&new.templates_for(caller), &old.templates_for(caller), |one| &one.declared);
        let prompts = differ(&new.prompts_for(caller), &old.prompts_for(caller), |one| &one.declared);
        Changed { tools, prompts, resources: resources() || templates() }
    }
}

fn differ<O, T: PartialEq>(now: &[Arc<O>], then: &[Arc<O>], declared: impl Fn(&O) -> &T) -> bool {
    now.len() != then.len() || now.iter().zip(then).any(|(new, old)| declared(new) != declared(old))
}
