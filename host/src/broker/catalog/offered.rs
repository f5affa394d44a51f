//! What plugins offer beside tools, found by name, URI or template.

use std::collections::HashMap;
use std::sync::Arc;

use crate::auth::Caller;
use crate::model::{Prompt, Resource, ResourceTemplate, normal_uri};
use crate::runtime::Plugin;

/// Something that a plugin declared, with the plugin that answers for it.
pub struct Offered<T> {
    pub declared: T,
    pub plugin: Arc<Plugin>,
}

/// What some plugin offers beside tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds {
    pub prompts: bool,
    /// Listed ones, or templates.
    pub resources: bool,
    pub completions: bool,
}

/// What a URI stands for.
pub enum Found {
    Listed(Arc<Offered<Resource>>),
    /// It fits a template, with these variables.
    Made(Arc<Offered<ResourceTemplate>>, Vec<(String, String)>),
}

/// Lists are in the order in which plugins were given.
#[derive(Default)]
pub(super) struct Shelf {
    prompts: Vec<Arc<Offered<Prompt>>>,
    resources: Vec<Arc<Offered<Resource>>>,
    templates: Vec<Arc<Offered<ResourceTemplate>>>,
    by_name: HashMap<String, Arc<Offered<Prompt>>>,
    /// By the normal form, in which they are looked for.
    by_uri: HashMap<String, Arc<Offered<Resource>>>,
    completes: bool,
}

impl Shelf {
    /// What is taken refuses the newcomer: one plugin must not answer for another.
    pub fn check(&self, plugin: &Plugin) -> Result<(), String> {
        let offers = plugin.offers();
        let taken =
            |what: &str, name: &str, by: &Plugin| Err(format!("{what} {name} is offered by plugin {}", by.id()));
        for prompt in &offers.prompts {
            if let Some(other) = self.by_name.get(&prompt.name) {
                return taken("prompt", &prompt.name, &other.plugin);
            }
        }
        for resource in &offers.resources {
            if let Some(other) = self.by_uri.get(&normal_uri(&resource.uri)) {
                return taken("resource", &resource.uri, &other.plugin);
            }
        }
        for template in &offers.templates {
            if let Some(other) = self.find_template(template.uri.as_str()) {
                return taken("template", template.uri.as_str(), &other.plugin);
            }
        }
        Ok(())
    }

    pub fn add(&mut self, plugin: &Arc<Plugin>) {
        let offers = plugin.offers();
        self.completes |= offers.completes;
        for prompt in offered(&offers.prompts, plugin) {
            self.by_name.insert(prompt.declared.name.clone(), prompt.clone());
            self.prompts.push(prompt);
        }
        for resource in offered(&offers.resources, plugin) {
            self.by_uri.insert(normal_uri(&resource.declared.uri), resource.clone());
            self.resources.push(resource);
        }
        self.templates.extend(offered(&offers.templates, plugin));
    }

    pub fn prompts_for(&self, caller: &Caller) -> Vec<Arc<Offered<Prompt>>> {
        visible(&self.prompts, caller, |prompt| &prompt.scopes)
    }
    pub fn resources_for(&self, caller: &Caller) -> Vec<Arc<Offered<Resource>>> {
        visible(&self.resources, caller, |resource| &resource.scopes)
    }
    pub fn templates_for(&self, caller: &Caller) -> Vec<Arc<Offered<ResourceTemplate>>> {
        visible(&self.templates, caller, |template| &template.scopes)
    }

    pub fn find_prompt(&self, name: &str) -> Option<Arc<Offered<Prompt>>> {
        self.by_name.get(name).cloned()
    }

    /// A listed URI comes before any template; of templates, the one that fixes most of the URI, then the first.
    pub fn find_resource(&self, uri: &str) -> Option<Found> {
        let uri = normal_uri(uri);
        if let Some(listed) = self.by_uri.get(&uri) {
            return Some(Found::Listed(listed.clone()));
        }
        let fits =
            |template: &Arc<Offered<ResourceTemplate>>| Some((template.clone(), template.declared.uri.matches(&uri)?));
        // Reversed, because of equals `max_by_key` takes the last.
        let best = self.templates.iter().rev().filter_map(fits).max_by_key(|(t, _)| t.declared.uri.literal_chars());
        best.map(|(template, variables)| Found::Made(template, variables))
    }

    pub fn find_template(&self, text: &str) -> Option<Arc<Offered<ResourceTemplate>>> {
        self.templates.iter().find(|template| template.declared.uri.as_str() == text).cloned()
    }

    pub fn kinds(&self) -> Kinds {
        Kinds {
            prompts: !self.prompts.is_empty(),
            resources: !self.resources.is_empty() || !self.templates.is_empty(),
            completions: self.completes,
        }
    }

    pub fn scopes(&self) -> impl Iterator<Item = String> {
        let prompts = self.prompts.iter().flat_map(|p| &p.declared.scopes);
        let resources = self.resources.iter().flat_map(|r| &r.declared.scopes);
        let templates = self.templates.iter().flat_map(|t| &t.declared.scopes);
        prompts.chain(resources).chain(templates).cloned()
    }
}

fn offered<T: Clone>(all: &[T], plugin: &Arc<Plugin>) -> impl Iterator<Item = Arc<Offered<T>>> {
    all.iter().map(|declared| Arc::new(Offered { declared: declared.clone(), plugin: plugin.clone() }))
}

fn visible<T>(all: &[Arc<Offered<T>>], caller: &Caller, scopes: fn(&T) -> &Vec<String>) -> Vec<Arc<Offered<T>>> {
    all.iter().filter(|one| scopes(&one.declared).iter().all(|s| caller.has_scope(s))).cloned().collect()
}
