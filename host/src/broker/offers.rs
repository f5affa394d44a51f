//! Prompts, resources and completions, from who asks to what they get. Shorter than a tool call (`pipeline`): nothing here
//! may change anything, so nobody confirms and no audit row is written.
//!
//! identify (before us) → resolve → scopes → rate limit → validate arguments → run in the sandbox → validate the answer →
//! span and metrics.

use serde_json::{Map, Value};
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::catalog::{Found, Offered};
use super::observe;
use super::pipeline::Broker;
use super::steps;
use crate::auth::Caller;
use crate::error::{Error, Reason, Result};
use crate::model::{
    CallContext, CompleteCall, Laps, Prompt, PromptCall, PromptResult, ReadCall, ReadResult, Reference, Suggestions,
    is_within,
};
use crate::runtime::{Ask, AskCompletion, AskPrompt, AskResource, Ended, Plugin, PluginCall};

/// From the WIT.
const MAX_ARGUMENT_BYTES: usize = 16 << 10;
/// One count for all of them: a client may ask at every key that is pressed.
const COMPLETIONS: &str = "completion/complete";
const MAX_COMPLETED_CHARS: usize = 1_024;

/// Is this the name of an argument, or a variable, of what is completed?
type IsDeclared = Box<dyn Fn(&str) -> bool>;

/// A question that passed every gate.
struct Ready<A> {
    plugin: Arc<Plugin>,
    /// What spans call it: the prompt's name, the resource's URI or template.
    name: String,
    ask: A,
}

impl Broker {
    pub async fn get_prompt(&self, caller: &Caller, call: PromptCall) -> Result<PromptResult> {
        let received = Instant::now();
        let ready = self.clear_prompt(caller, &call.name, call.arguments);
        self.serve("prompts/get", caller, call.context, received, ready, |_| Ok(())).await
    }

    pub async fn read_resource(&self, caller: &Caller, call: ReadCall) -> Result<ReadResult> {
        let received = Instant::now();
        let ready = self.clear_read(caller, &call.uri);
        let read = self
            .serve("resources/read", caller, call.context, received, ready, |read| answers_for(&call.uri, read))
            .await;
        read.map_err(|error| match error.reason() {
            Reason::ResourceNotFound => error.with("uri", call.uri),
            _ => error,
        })
    }

    pub async fn complete(&self, caller: &Caller, call: CompleteCall) -> Result<Suggestions> {
        let received = Instant::now();
        let context = call.context.clone();
        match self.clear_completion(caller, call).transpose() {
            Some(ready) => self.serve("completion/complete", caller, context, received, ready, |_| Ok(())).await,
            // It offers no completions: that is an answer.
            None => Ok(Suggestions::default()),
        }
    }

    /// Refuses with `prompt_not_found`, `insufficient_scope`, `invalid_params`.
    fn clear_prompt(&self, caller: &Caller, name: &str, arguments: Map<String, Value>) -> Result<Ready<AskPrompt>> {
        let prompt = self.find_prompt(name)?;
        let counted = format!("prompts/get {name}");
        self.allow(caller, format_args!("Prompt {name}"), &prompt.declared.scopes, &counted)?;
        check_arguments(&prompt.declared, &arguments)?;
        let ask = AskPrompt { name: name.to_owned(), arguments: Value::Object(arguments).to_string() };
        Ok(Ready { plugin: prompt.plugin.clone(), name: name.to_owned(), ask })
    }

    /// Refuses with `resource_not_found`, `insufficient_scope`.
    fn clear_read(&self, caller: &Caller, uri: &str) -> Result<Ready<AskResource>> {
        let found = self.catalog().find_resource(uri);
        let found = found.ok_or_else(|| Error::new(Reason::ResourceNotFound, "There is no such resource."))?;
        let ask = |uri: &str, template: Option<String>, variables: Map<String, Value>| AskResource {
            uri: uri.to_owned(),
            template,
            variables: Value::Object(variables).to_string(),
        };
        match found {
            Found::Listed(resource) => {
                self.allow(
                    caller,
                    "This resource",
                    &resource.declared.scopes,
                    &format!("resources/read {}", resource.declared.uri),
                )?;
                // However it was spelt, the plugin is asked for what it listed.
                let listed = resource.declared.uri.as_str();
                Ok(Ready { plugin: resource.plugin.clone(), name: listed.into(), ask: ask(listed, None, Map::new()) })
            }
            Found::Made(template, variables) => {
                let text = template.declared.uri.as_str().to_owned();
                self.allow(caller, "This resource", &template.declared.scopes, &format!("resources/read {text}"))?;
                let variables = variables.into_iter().map(|(name, value)| (name, value.into())).collect();
                Ok(Ready { plugin: template.plugin.clone(), name: text.clone(), ask: ask(uri, Some(text), variables) })
            }
        }
    }

    /// `None`: the plugin answers no completions. Refuses with `prompt_not_found`, `insufficient_scope`, `invalid_params`.
    fn clear_completion(&self, caller: &Caller, call: CompleteCall) -> Result<Option<Ready<AskCompletion>>> {
        let (plugin, name, is_declared): (_, _, IsDeclared) = match &call.reference {
            Reference::Prompt(name) => {
                let prompt = self.find_prompt(name)?;
                self.allow(caller, format_args!("Prompt {name}"), &prompt.declared.scopes, COMPLETIONS)?;
                let plugin = prompt.plugin.clone();
                let declared = move |name: &str| prompt.declared.arguments.iter().any(|argument| argument.name == name);
                (plugin, name.clone(), Box::new(declared))
            }
            Reference::Template(text) => {
                let template = self.catalog().find_template(text);
                let template = template.ok_or_else(|| invalid("There is no such resource template."))?;
                self.allow(caller, "This resource template", &template.declared.scopes, COMPLETIONS)?;
                let plugin = template.plugin.clone();
                (plugin, text.clone(), Box::new(move |name: &str| template.declared.uri.has_variable(name)))
            }
        };
        if !is_declared(&call.argument) {
            return Err(invalid("It declares no argument of that name."));
        }
        if call.value.chars().count() > MAX_COMPLETED_CHARS {
            return Err(invalid(&format!("The value to complete is over {MAX_COMPLETED_CHARS} characters.")));
        }
        if let Some((name, _)) = call.chosen.iter().find(|(_, value)| !fits(value)) {
            return Err(invalid(&not_a_text(name)));
        }
        let mut chosen = call.chosen;
        chosen.retain(|name, _| is_declared(name));
        let chosen = Value::Object(chosen).to_string();
        let ask = AskCompletion { reference: call.reference, argument: call.argument, value: call.value, chosen };
        Ok(plugin.offers().completes.then_some(Ready { plugin, name, ask }))
    }

    fn find_prompt(&self, name: &str) -> Result<Arc<Offered<Prompt>>> {
        self.catalog().find_prompt(name).ok_or_else(|| {
            let name: String = name.chars().take(100).filter(|c| !c.is_control()).collect();
            Error::new(Reason::PromptNotFound, format!("Unknown prompt: {name}"))
        })
    }

    /// May this caller have that, now. Before arguments are looked at: who may not have it learns nothing about them.
    /// `counted`: under what it counts for the caller's rate, from a closed set.
    fn allow(&self, caller: &Caller, what: impl Display, scopes: &[String], counted: &str) -> Result<()> {
        steps::check_scopes(caller, what, scopes)?;
        self.admit(caller, counted)
    }

    /// May this caller read that, and so hear when it changes? Refuses with `resource_not_found`, `insufficient_scope`.
    pub fn may_read(&self, caller: &Caller, uri: &str) -> Result<()> {
        let found = self.catalog().find_resource(uri);
        let found =
            found.ok_or_else(|| Error::new(Reason::ResourceNotFound, "There is no such resource.").with("uri", uri))?;
        let scopes = match &found {
            Found::Listed(resource) => &resource.declared.scopes,
            Found::Made(template, _) => &template.declared.scopes,
        };
        steps::check_scopes(caller, "This resource", scopes)
    }

    async fn serve<A: Ask>(
        &self,
        method: &'static str,
        caller: &Caller,
        context: CallContext,
        received: Instant,
        ready: Result<Ready<A>>,
        validate: impl FnOnce(&A::Answer) -> Result<()>,
    ) -> Result<A::Answer> {
        let (trace, request_id) = (context.trace, context.request_id.clone());
        let mut laps = self.parts.observer.laps(&trace, received);
        let (asked, Ended { outcome, fuel }) = match ready {
            Ok(Ready { plugin, name, ask }) => {
                let ended = run(&plugin, ask, caller, context, &mut laps).await;
                (Some((plugin, name)), ended)
            }
            Err(refusal) => (None, Ended { outcome: Err(refusal), fuel: 0 }),
        };
        let outcome = outcome.and_then(|answer| validate(&answer).map(|()| answer));
        self.parts.observer.served(observe::Served {
            method,
            asked: asked.as_ref().map(|(plugin, name)| (&**plugin, name.as_str())),
            caller,
            trace: &trace,
            received,
            error: outcome.as_ref().err(),
            fuel,
            request_id: request_id.as_deref(),
            laps: &laps,
        });
        outcome
    }
}

/// In a fresh instance, with the limits of a tool call.
async fn run<A: Ask>(
    plugin: &Arc<Plugin>,
    ask: A,
    caller: &Caller,
    context: CallContext,
    laps: &mut Laps,
) -> Ended<A::Answer> {
    let call = PluginCall {
        caller: caller.clone(),
        bearer: caller.bearer(),
        trace: context.trace,
        deadline: Instant::now() + Duration::from_millis(plugin.grants().limits.deadline_ms),
        cancel: context.cancel,
        progress: context.progress,
        client: context.client,
        task_id: None,
        cleared_to_append: false,
    };
    plugin.call(ask, call, laps).await
}

/// What was read is what was asked for, or below it: a plugin does not answer for other resources.
fn answers_for(uri: &str, read: &ReadResult) -> Result<()> {
    match read.contents.iter().find(|contents| !is_within(&contents.uri, uri)) {
        Some(stray) => {
            Err(Error::new(Reason::InvalidResult, "The plugin answered for another resource.").detail(&stray.uri))
        }
        None => Ok(()),
    }
}

/// MCP 2025-11-25, prompts: arguments are strings. Every required one, none that is not declared.
fn check_arguments(prompt: &Prompt, arguments: &Map<String, Value>) -> Result<()> {
    let at = |name: &str, what: String| {
        let pointer = format!("/arguments/{}", name.replace('~', "~0").replace('/', "~1"));
        Err(invalid(&what).with("pointer", pointer))
    };
    for (name, value) in arguments {
        if !prompt.arguments.iter().any(|argument| argument.name == *name) {
            return at(name, format!("Prompt {} has no argument {:?}.", prompt.name, clip(name)));
        }
        if !fits(value) {
            return at(name, not_a_text(name));
        }
    }
    match prompt.arguments.iter().find(|a| a.required && !arguments.contains_key(&a.name)) {
        Some(missing) => at(&missing.name, format!("Prompt {} needs the argument {:?}.", prompt.name, missing.name)),
        None => Ok(()),
    }
}

fn fits(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.len() <= MAX_ARGUMENT_BYTES)
}

fn not_a_text(name: &str) -> String {
    format!("Argument {:?} is not a string of at most {MAX_ARGUMENT_BYTES} bytes.", clip(name))
}

fn clip(name: &str) -> String {
    name.chars().take(100).collect()
}

fn invalid(what: &str) -> Error {
    Error::new(Reason::InvalidParams, what)
}
