//! The client of a call that runs as a task: what it is asked goes into the task's row, and the answer comes from there,
//! because nothing but the row connects a worker with its owner. Whoever serves the owner puts the question (`following`).
//!
//! The time in which somebody thinks is given back to the task. Source: MCP 2025-11-25, tasks, input required.

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::question::{Answer, Question};
use crate::error::{Error, Reason, Result};
use crate::model::{Client, ClientFeatures, ElicitAnswer, Elicitation, LogLevel};
use crate::store::{Store, TaskQuestion, TaskRow, TaskStatus, WorkerId};

/// Longest time that one task may spend waiting for answers, all in all.
const MAX_WAITING: Duration = Duration::from_secs(3600);
/// How long to wait for a change of the row before looking anyway.
const LOOK: Duration = Duration::from_secs(5);
/// After the store failed.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) struct RowClient {
    store: Arc<dyn Store>,
    /// As it was claimed.
    row: TaskRow,
    worker: WorkerId,
    features: ClientFeatures,
    /// For one answer.
    patience: Duration,
    /// Fires when the task is not this worker's to run any more.
    cancel: CancellationToken,
    /// One question at a time.
    clock: Mutex<Clock>,
}

struct Clock {
    timeout_at: Timestamp,
    waiting_left: Duration,
}

impl RowClient {
    pub fn new(
        store: Arc<dyn Store>,
        row: TaskRow,
        worker: WorkerId,
        features: ClientFeatures,
        patience: Duration,
        cancel: CancellationToken,
    ) -> RowClient {
        let clock = Mutex::new(Clock { timeout_at: row.timeout_at, waiting_left: MAX_WAITING });
        RowClient { store, row, worker, features, patience, cancel, clock }
    }

    /// Until when the task may run, with what its questions gave back.
    pub async fn timeout_at(&self) -> Timestamp {
        self.clock.lock().await.timeout_at
    }

    /// Ask, and let `decide` take the answer, or what kept it from coming. What it makes the row keep of the call is there
    /// before this returns. When it refuses, the task goes no further and its row still waits.
    pub async fn ask_and<T>(
        &self,
        question: Question,
        decide: impl FnOnce(Result<Answer>) -> Result<(T, Option<Value>)> + Send,
    ) -> Result<T> {
        let mut clock = self.clock.lock().await;
        let asked = Instant::now();
        let answer = self.ask(question, clock.timeout_at, self.patience.min(clock.waiting_left)).await;
        let (decided, call) = decide(answer)?;
        let waited = asked.elapsed().min(clock.waiting_left);
        clock.waiting_left -= waited;
        clock.timeout_at += SignedDuration::try_from(waited).expect("at most an hour");
        let (tenant, id) = (self.row.owner.tenant, &self.row.id);
        let now = self.store.set_running(tenant, id, &self.worker, clock.timeout_at, call.as_ref()).await?;
        self.still_ours(now)?;
        Ok(decided)
    }

    async fn ask(&self, question: Question, timeout_at: Timestamp, patience: Duration) -> Result<Answer> {
        let question = TaskQuestion::new(question.to_json());
        let (tenant, id) = (self.row.owner.tenant, &self.row.id);
        // A row whose time to live is short must not expire while somebody thinks.
        let at_most = timeout_at + SignedDuration::try_from(patience).expect("at most an hour");
        let now = self.store.set_running(tenant, id, &self.worker, at_most, None).await?;
        self.still_ours(now)?;
        let now = self.store.set_input_required(tenant, id, &self.worker, &question).await?;
        self.still_ours(now)?;
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(cancelled()),
            answer = tokio::time::timeout(patience, self.answer_to(&question.id)) => answer.unwrap_or_else(|_| {
                Err(Error::new(Reason::Timeout, "Nobody answered the task's question in time.")
                    .hint("Call tasks/result while the task is input_required, and answer what it asks."))
            }),
        }
    }

    async fn answer_to(&self, question: &str) -> Result<Answer> {
        let (owner, id) = (&self.row.owner, &self.row.id);
        loop {
            let row = match self.store.task(owner, id).await {
                Ok(Some(row)) if !row.status.has_ended() => row,
                Ok(_) => return Err(cancelled()),
                // The lease tells when it has been away for too long.
                Err(error) => {
                    tracing::warn!(task = %id, ?error, "a task cannot look for its answer");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            if row.question.as_ref().is_none_or(|open| open.id != question) {
                return Err(Error::new(Reason::WorkerLost, "Another process runs this task now."));
            }
            if let Some(answer) = row.answer {
                return Answer::read(answer);
            }
            self.store.task_changed(owner.tenant, id, row.updated_at, LOOK).await;
        }
    }

    fn still_ours(&self, status: Option<TaskStatus>) -> Result<()> {
        match status {
            Some(TaskStatus::Running | TaskStatus::InputRequired) => Ok(()),
            Some(_) => Err(cancelled()),
            None => Err(Error::new(Reason::WorkerLost, "Another process runs this task now.")),
        }
    }
}

#[async_trait]
impl Client for RowClient {
    fn features(&self) -> ClientFeatures {
        self.features
    }

    async fn elicit(&self, question: Elicitation) -> Result<ElicitAnswer> {
        let declared = match &question {
            Elicitation::Form(_) => self.features.elicit_form,
            Elicitation::Url(_) => self.features.elicit_url,
        };
        if !declared {
            return Err(unsupported("elicitation"));
        }
        // A failure of the question is the plugin's to handle, and it runs on with it.
        self.ask_and(Question::from(&question), |answer| Ok((answer, None)))
            .await?
            .and_then(|a| a.into_elicitation(&question))
    }

    async fn sample(&self, request: Map<String, Value>) -> Result<Map<String, Value>> {
        let needs_tools = request.contains_key("tools") || request.contains_key("toolChoice");
        if !self.features.sample || (needs_tools && !self.features.sample_tools) {
            return Err(unsupported("sampling"));
        }
        self.ask_and(Question::Sample { request }, |answer| Ok((answer, None))).await?.and_then(Answer::into_sample)
    }

    fn elicitation_complete(&self, elicitation_id: &str) {
        tracing::debug!(task = %self.row.id, elicitation_id, "a visit is complete; the task's client learns it from the result");
    }

    /// Nobody listens to a task: what it says goes to the operator's log.
    fn log(&self, level: LogLevel, logger: &str, data: Value) {
        tracing::debug!(target: "plugin", task = %self.row.id, level = level.as_str(), logger, "{data}");
    }
}

fn unsupported(what: &str) -> Error {
    Error::new(Reason::ClientUnsupported, format!("The client that started this task did not declare {what}."))
}

fn cancelled() -> Error {
    Error::new(Reason::Cancelled, "The task was cancelled.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Form, Progress, TenantId, ToolName, TraceId};
    use crate::store::{NewTask, SqliteStore, TaskId, TaskOwner};
    use serde_json::json;

    /// A claimed task and its client, on a store of its own.
    async fn claimed(patience: Duration) -> (tempfile::TempDir, Arc<dyn Store>, RowClient) {
        claimed_for(Duration::from_secs(60), patience).await
    }

    /// `time`: it may run, and is kept, for so long.
    async fn claimed_for(time: Duration, patience: Duration) -> (tempfile::TempDir, Arc<dyn Store>, RowClient) {
        let home = tempfile::TempDir::new().unwrap();
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&home.path().join("bridge.db")).await.unwrap());
        let now = Timestamp::now();
        let task = NewTask {
            id: TaskId::random(),
            owner: TaskOwner { tenant: TenantId::LOCAL, subject: "alice".into() },
            tool: ToolName::parse("test.asks").unwrap(),
            arguments: Map::new(),
            call: json!({}),
            trace_id: TraceId::random(),
            created_at: now,
            timeout_at: now + time,
            ttl: time,
        };
        store.insert_task(&task, 10).await.unwrap();
        let worker = WorkerId("w".into());
        let row =
            store.claim_task(task.owner.tenant, &task.id, &worker, Duration::from_secs(60)).await.unwrap().unwrap();
        let features = ClientFeatures { elicit_form: true, sample: true, ..ClientFeatures::default() };
        let client = RowClient::new(store.clone(), row, worker, features, patience, CancellationToken::new());
        (home, store, client)
    }

    fn form() -> Elicitation {
        let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
        Elicitation::Form(Form::new("How many?", schema).unwrap())
    }

    async fn row_of(client: &RowClient) -> TaskRow {
        client.store.task(&client.row.owner, &client.row.id).await.unwrap().unwrap()
    }

    /// What another process does: wait for the question, give this answer.
    async fn answer(client: &RowClient, answer: Value) {
        loop {
            let row = row_of(client).await;
            if let Some(open) = row.question {
                assert!(client.store.answer_task(&row.owner, &row.id, &open.id, &answer).await.unwrap());
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn an_answer_comes_through_the_row_and_the_waiting_is_given_back() {
        // given
        let (_home, _store, client) = claimed(Duration::from_secs(20)).await;
        // when
        let later = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            answer(&client, json!({ "kind": "accept", "content": { "n": 3, "more": 1 } })).await;
        };
        let (answered, ()) = tokio::join!(client.elicit(form()), later);
        // then
        assert_eq!(answered.unwrap(), ElicitAnswer::Accept(json!({ "n": 3 }).as_object().unwrap().clone()));
        let row = row_of(&client).await;
        assert_eq!((row.status, row.question, row.answer), (TaskStatus::Running, None, None));
        let given_back = row.timeout_at.duration_since(client.row.timeout_at);
        assert!(given_back >= SignedDuration::from_millis(300), "{given_back:?}");
        assert_eq!(client.timeout_at().await.as_microsecond(), row.timeout_at.as_microsecond());
    }

    #[tokio::test]
    async fn a_row_outlives_the_time_that_somebody_takes() {
        // given: a task that is kept for as long as it may run, and no longer
        let (_home, _store, client) = claimed_for(Duration::from_millis(700), Duration::from_secs(20)).await;
        // when: the answer takes longer than that
        let later = async {
            tokio::time::sleep(Duration::from_millis(1_000)).await;
            answer(&client, json!({ "kind": "decline" })).await;
        };
        let (answered, ()) = tokio::join!(client.elicit(form()), later);
        // then
        assert_eq!(answered.unwrap(), ElicitAnswer::Decline);
        assert_eq!(row_of(&client).await.status, TaskStatus::Running);
    }

    #[tokio::test]
    async fn silence_ends_the_question_and_not_the_task() {
        let (_home, _store, client) = claimed(Duration::from_millis(50)).await;
        assert_eq!(client.elicit(form()).await.unwrap_err().reason(), Reason::Timeout);
        let row = row_of(&client).await;
        assert_eq!((row.status, row.question), (TaskStatus::Running, None));
    }

    #[tokio::test]
    async fn answers_that_do_not_fit_and_refusals_are_told_apart() {
        let (_home, _store, client) = claimed(Duration::from_secs(20)).await;
        for (given, reason) in [
            (json!({ "kind": "accept", "content": { "n": "three" } }), Reason::BadResponse),
            (json!({ "kind": "sampled", "result": {} }), Reason::BadResponse),
            (json!({ "nonsense": true }), Reason::BadResponse),
            (json!({ "kind": "failed", "reason": "user_declined", "message": "no" }), Reason::UserDeclined),
        ] {
            let (answered, ()) = tokio::join!(client.elicit(form()), answer(&client, given.clone()));
            assert_eq!(answered.unwrap_err().reason(), reason, "{given}");
        }
        let sampled = json!({ "kind": "sampled", "result": { "role": "assistant", "content": { "type": "text" } } });
        let (answered, ()) = tokio::join!(client.sample(Map::new()), answer(&client, sampled));
        assert_eq!(answered.unwrap()["role"], "assistant");
        let tools = json!({ "tools": [] }).as_object().unwrap().clone();
        assert_eq!(client.sample(tools).await.unwrap_err().reason(), Reason::ClientUnsupported);
    }

    #[tokio::test]
    async fn a_cancelled_task_asks_no_longer() {
        let (_home, store, client) = claimed(Duration::from_secs(20)).await;
        let cancel = async {
            while row_of(&client).await.question.is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            store.cancel_task(&client.row.owner, &client.row.id).await.unwrap();
        };
        let (answered, ()) = tokio::join!(client.elicit(form()), cancel);
        assert_eq!(answered.unwrap_err().reason(), Reason::Cancelled);
        assert_eq!(row_of(&client).await.status, TaskStatus::Cancelled);
        assert_eq!(client.elicit(form()).await.unwrap_err().reason(), Reason::Cancelled, "nor later");
    }

    #[tokio::test]
    async fn who_refuses_leaves_the_task_where_it_is() {
        let (_home, store, client) = claimed(Duration::from_secs(20)).await;
        let refuse = |_: Result<Answer>| Err::<((), _), _>(Error::new(Reason::UserDeclined, "no"));
        let question = Question::from(&form());
        let (decided, ()) =
            tokio::join!(client.ask_and(question, refuse), answer(&client, json!({ "kind": "decline" })));
        assert_eq!(decided.unwrap_err().reason(), Reason::UserDeclined);
        let progress = Progress { progress: 1.0, total: None, message: None };
        let (tenant, id) = (client.row.owner.tenant, &client.row.id);
        let now = store.renew_task(tenant, id, &client.worker, Duration::from_secs(6), Some(&progress)).await.unwrap();
        assert_eq!(now, Some(TaskStatus::InputRequired), "it has not gone on");
    }
}
