//! `cyberos:plugin/elicit`: ask the user behind the call. What may be asked is checked here and in `model::Form`; how it
//! reaches the user is the client's business. Source: MCP 2025-11-25, elicitation.

use serde_json::Value;
use url::{Host as UrlHost, Url};
use uuid::Uuid;

use crate::model::{ElicitAnswer, Elicitation, Form, PluginId, UrlVisit, is_plain};
use crate::runtime::bindings::cyberos::plugin::elicit::{Abilities, Answer, Host, Visit};
use crate::runtime::bindings::cyberos::plugin::types::ClientError;
use crate::runtime::call::CallState;

/// From the WIT.
const MAX_SCHEMA_BYTES: usize = 16 << 10;
const MAX_MESSAGE_CHARS: usize = 4_000;
const MAX_URL_CHARS: usize = 2_048;

impl Host for CallState {
    async fn can(&mut self) -> wasmtime::Result<Abilities> {
        self.enter()?;
        let features = self.call.client.features();
        Ok(Abilities { form: features.elicit_form, url: features.elicit_url })
    }

    async fn form(&mut self, message: String, schema: String) -> wasmtime::Result<Result<Answer, ClientError>> {
        self.enter()?;
        let form = match form(&self.plugin, &message, &schema) {
            Ok(form) => form,
            Err(why) => return Ok(Err(ClientError::Invalid(why))),
        };
        if !self.call.client.features().elicit_form {
            return Ok(Err(self.unsupported("elicitation")));
        }
        let client = self.call.client.clone();
        let answer = self.wait_for_client(client.elicit(Elicitation::Form(form))).await;
        Ok(answer.map(|answer| match answer {
            ElicitAnswer::Accept(content) => Answer::Accept(Value::Object(content).to_string()),
            ElicitAnswer::Decline => Answer::Decline,
            ElicitAnswer::Cancel => Answer::Cancel,
        }))
    }

    async fn url(&mut self, message: String, url: String) -> wasmtime::Result<Result<Visit, ClientError>> {
        self.enter()?;
        let url = match check_message(&message).and_then(|()| check_url(&url)) {
            Ok(url) => url,
            Err(why) => return Ok(Err(ClientError::Invalid(why))),
        };
        if !self.call.client.features().elicit_url {
            return Ok(Err(self.unsupported("elicitation by URL")));
        }
        let elicitation_id = Uuid::new_v4().to_string();
        let visit = UrlVisit {
            message: signed(&self.plugin, &message),
            url: url.into(),
            elicitation_id: elicitation_id.clone(),
        };
        let client = self.call.client.clone();
        let answer = self.wait_for_client(client.elicit(Elicitation::Url(visit))).await;
        Ok(answer.map(|answer| match answer {
            ElicitAnswer::Accept(_) => {
                self.client.visits.push(elicitation_id.clone());
                Visit::Accept(elicitation_id)
            }
            ElicitAnswer::Decline => Visit::Decline,
            ElicitAnswer::Cancel => Visit::Cancel,
        }))
    }

    async fn completed(&mut self, id: String) -> wasmtime::Result<()> {
        self.enter()?;
        // Once each: what was completed is forgotten.
        if let Some(at) = self.client.visits.iter().position(|visit| *visit == id) {
            self.client.visits.swap_remove(at);
            self.call.client.elicitation_complete(&id);
        }
        Ok(())
    }
}

/// The user must see who is asking: neither the bridge, whose own questions decide what may run, nor another plugin.
fn signed(plugin: &PluginId, message: &str) -> String {
    format!("Plugin {plugin} asks: {message}")
}

fn form(plugin: &PluginId, message: &str, schema: &str) -> Result<Form, String> {
    check_message(message)?;
    if schema.len() > MAX_SCHEMA_BYTES {
        return Err(format!("the schema is over {MAX_SCHEMA_BYTES} bytes"));
    }
    let schema = serde_json::from_str(schema).map_err(|error| format!("the schema is not JSON: {error}"))?;
    Form::new(&signed(plugin, message), schema)
}

fn check_message(message: &str) -> Result<(), String> {
    match message.trim().is_empty() || message.chars().count() > MAX_MESSAGE_CHARS {
        true => Err(format!("the message must have 1 to {MAX_MESSAGE_CHARS} characters")),
        false if !is_plain(message) => Err("the message holds control or invisible characters".into()),
        false => Ok(()),
    }
}

/// What the user is shown is what the browser opens: https, nobody's credentials, nothing hidden.
fn check_url(text: &str) -> Result<Url, String> {
    if text.len() > MAX_URL_CHARS {
        return Err(format!("the URL is over {MAX_URL_CHARS} characters"));
    }
    let url = Url::parse(text).map_err(|error| format!("the URL is not valid: {error}"))?;
    if url.scheme() != "https" {
        return Err("the URL is not https".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL holds credentials".into());
    }
    if url.fragment().is_some() {
        return Err("the URL has a fragment".into());
    }
    if is_users_own(&url) {
        return Err("the URL leads to the user's own machine".into());
    }
    Ok(url)
}

/// A page there is not the plugin's, and a visit may do something.
fn is_users_own(url: &Url) -> bool {
    match url.host() {
        Some(UrlHost::Ipv4(ip)) => ip.is_loopback() || ip.is_unspecified() || ip.is_link_local(),
        Some(UrlHost::Ipv6(ip)) => {
            let inner = ip.to_ipv4_mapped();
            ip.is_loopback() || ip.is_unspecified() || inner.is_some_and(|ip| ip.is_loopback() || ip.is_unspecified())
        }
        Some(UrlHost::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_only_sent_to_https_without_credentials() {
        assert_eq!(
            check_url("https://example.com/sign-in?state=1").unwrap().as_str(),
            "https://example.com/sign-in?state=1"
        );
        for bad in [
            "http://example.com/",
            "javascript:alert(1)",
            "https://user@example.com/",
            "https://user:pass@example.com/",
            "https://example.com/#x",
            "https://localhost:8443/",
            "https://app.localhost./",
            "https://127.1/",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://0.0.0.0/",
            "https://169.254.169.254/",
            "https://",
            "/sign-in",
            &format!("https://example.com/{}", "x".repeat(MAX_URL_CHARS)),
        ] {
            check_url(bad).unwrap_err();
        }
    }
}
