//! Answers that a case wrote down, in place of its upstreams. They stand below the grant's policy, so that a request which
//! the grant does not allow never gets here.

use reqwest::ResponseBuilderExt;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use url::{Position, Url};

use super::case::{Answer, Trouble};
use crate::config::UpstreamGrant;
use crate::upstreams::http::{Answers, FetchError};

/// What is asked is answered by the first answer that fits and was not given yet.
#[derive(Default)]
pub struct Script(Mutex<State>);

#[derive(Default)]
struct State {
    lines: Vec<Line>,
    complaints: Vec<String>,
}

struct Line {
    answer: Answer,
    /// Of the grant with the answer's name.
    origin: Url,
    given: bool,
}

impl Script {
    /// Errors: an answer for an upstream that is not granted, and so could never be asked.
    pub fn of(answers: &[Answer], granted: &BTreeMap<String, UpstreamGrant>) -> Result<Script, String> {
        let line = |answer: &Answer| {
            let known = granted.get(&answer.name).and_then(|grant| Url::parse(&grant.url).ok());
            let origin = known.ok_or_else(|| {
                format!(
                    "[[upstream]] {}: no such upstream is granted, so the plugin cannot ask it. Add it to grants.toml, or correct the name.",
                    answer.name
                )
            })?;
            Ok(Line { answer: answer.clone(), origin, given: false })
        };
        let lines = answers.iter().map(line).collect::<Result<_, String>>()?;
        Ok(Script(Mutex::new(State { lines, complaints: vec![] })))
    }

    /// Go by this one from now on.
    pub(super) fn start(&self, next: Script) {
        let next = next.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        *self.state() = next;
    }

    /// What was asked and not scripted, and what was scripted and not asked.
    pub(super) fn end(&self) -> Vec<String> {
        let State { lines, mut complaints } = std::mem::take(&mut *self.state());
        let unused = lines.iter().filter(|line| !line.given);
        complaints.extend(unused.map(|line| {
            let Answer { name, method, path, .. } = &line.answer;
            format!("it did not ask {name} for {method} {path}, which the case answers")
        }));
        complaints
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answers for Script {
    fn answer(&self, request: &reqwest::Request) -> Result<reqwest::Response, FetchError> {
        let mut state = self.state();
        let url = request.url();
        let path = &url[Position::BeforePath..Position::AfterQuery];
        let asked = |line: &Line| {
            let Answer { method, path: scripted, .. } = &line.answer;
            line.origin.origin() == url.origin() && method == request.method().as_str() && scripted == path
        };
        let State { lines, complaints } = &mut *state;
        let Some(line) = lines.iter_mut().find(|line| !line.given && asked(line)) else {
            let method = request.method();
            complaints.push(format!("it asked for {method} {url}, which the case does not answer (any more)"));
            return Err(FetchError::Unreachable("the case has no answer to this".into()));
        };
        line.given = true;
        complaints.extend(differs(&line.answer, request));
        match line.answer.trouble {
            Some(Trouble::Timeout) => return Err(FetchError::Timeout),
            Some(Trouble::Unreachable) => return Err(FetchError::Unreachable("the case says so".into())),
            None => {}
        }
        let mut response = http::Response::builder().status(line.answer.status).url(url.clone());
        for (name, value) in &line.answer.headers {
            response = response.header(name, value);
        }
        let response = response.body(line.answer.body.clone());
        response.map(Into::into).map_err(|why| {
            complaints.push(format!("the answer to {} {path} is no HTTP answer: {why}", request.method()));
            FetchError::Unreachable("the case has no usable answer to this".into())
        })
    }
}

/// Where the request is not the one that the case wants.
fn differs(answer: &Answer, request: &reqwest::Request) -> Vec<String> {
    let Some(sent) = &answer.sent else { return vec![] };
    let about = format!("{} {}", request.method(), answer.path);
    let mut differs = vec![];
    for (name, value) in &sent.headers {
        let found = request.headers().get(name).map(|found| String::from_utf8_lossy(found.as_bytes()));
        if found.as_deref() != Some(value.as_str()) {
            let found = found.map_or("no such header".to_owned(), |found| format!("{found:?}"));
            differs.push(format!("{about}: header {name} is to be {value:?}, and there was {found}"));
        }
    }
    let body = request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default();
    if let Some(wanted) = &sent.body
        && wanted.as_bytes() != body
    {
        differs.push(format!("{about}: the body is to be {wanted:?}, and it was {:?}", String::from_utf8_lossy(body)));
    }
    if let Some(wanted) = &sent.json {
        let found: Option<serde_json::Value> = serde_json::from_slice(body).ok();
        if !found.as_ref().is_some_and(|found| super::judge::same(wanted, found)) {
            differs
                .push(format!("{about}: the body is to be {wanted}, and it was {:?}", String::from_utf8_lossy(body)));
        }
    }
    differs
}
