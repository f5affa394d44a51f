//! Children that misbehave, as small scripts.

use super::*;
use crate::model::{Progress, ProgressSink};
use crate::upstreams::cuo::rpc;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// A supervisor whose body is Python; `ask()` reads the request, `say(x)` writes one message.
fn python(body: &str) -> ChildProcess {
    let prelude = "import json, os, subprocess, sys, time\n\
        def ask(): return json.loads(sys.stdin.readline())\n\
        def say(x): sys.stdout.write((x if isinstance(x, str) else json.dumps(x)) + '\\n'); sys.stdout.flush()\n";
    let work = private_dir(&std::env::temp_dir()).unwrap();
    std::fs::write(work.path().join("supervisor.py"), format!("{prelude}{body}")).unwrap();
    let env = ["PATH", "PYENV_VERSION"].into_iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
    ChildProcess::spawn(&["python3".into(), "supervisor.py".into()], &env.collect::<Vec<_>>(), work).unwrap()
}

async fn call(child: ChildProcess) -> Result<Value, CuoError> {
    rpc::call(child, "cuo.execute", &json!({ "a": 1 }), &ProgressSink::none()).await
}

fn is_alive(pid: i32) -> bool {
    // A zombie that init has not collected yet is dead enough.
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status
        .rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().next())
        .is_some_and(|state| !matches!(state, "Z" | "X"))
}

async fn eventually(what: impl Fn() -> bool, within: Duration) -> bool {
    let until = Instant::now() + within;
    while !what() {
        if Instant::now() > until {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    true
}

#[tokio::test]
async fn progress_streams_while_the_child_runs_and_its_directory_goes_with_it() {
    // given
    let child = python(
        "r = ask()\n\
         say({'jsonrpc':'2.0','method':'cuo.progress','params':{'step':1,'position':1,'total':2,'skill':'adr','status':'done'}})\n\
         say({'jsonrpc':'2.0','id':r['id'],'result':{'asked':r['params'],'env':sorted(os.environ),'cwd':os.getcwd(),'mode':os.stat('.').st_mode & 0o777}})\n\
         sys.stdin.read()\n",
    );
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = ProgressSink::new({
        let seen = Arc::clone(&seen);
        move |p| seen.lock().unwrap().push(p)
    });
    // when
    let result = rpc::call(child, "cuo.execute", &json!({ "a": 1 }), &sink).await.unwrap();
    // then
    let one = Progress { progress: 1.0, total: Some(2.0), message: Some("Step 1 (adr): done".into()) };
    assert_eq!(*seen.lock().unwrap(), [one]);
    assert_eq!((&result["asked"], &result["mode"]), (&json!({ "a": 1 }), &0o700.into()));
    let inherited = result["env"].as_array().unwrap().iter().any(|name| name.as_str().unwrap().starts_with("CARGO"));
    assert!(!inherited, "{}", result["env"]);
    assert!(!Path::new(result["cwd"].as_str().unwrap()).exists());
}

#[tokio::test]
async fn a_child_that_crashes_or_talks_nonsense_is_a_bad_response() {
    for (body, detail) in [
        ("ask()\nsys.exit(3)\n", "exit status: 3"),
        ("ask()\nos.kill(os.getpid(), 9)\n", "signal: 9"),
        ("raise RuntimeError('/srv/secret')\n", "exit status: 1"),
        ("ask()\nsay('Welcome to CUO!')\n", "no JSON object"),
        ("ask()\nsay('[1]')\n", "no JSON object"),
        ("ask()\nsay({'jsonrpc':'2.0','id':2,'result':{}})\n", "answers nothing"),
        ("ask()\nsay({'jsonrpc':'2.0','id':1})\n", "neither result nor error"),
        ("ask()\nos.close(1)\ntime.sleep(0.2)\n", "exit status: 0"),
    ] {
        match call(python(body)).await {
            Err(CuoError::Unavailable { reason: Reason::BadResponse, message, detail: found }) => {
                assert!(found.contains(detail), "{body}: {found}");
                assert!(!message.contains("secret"), "{message}");
            }
            other => panic!("{body}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn what_a_child_said_before_it_went_still_counts() {
    let result = call(python("r = ask()\nsay({'jsonrpc':'2.0','id':1,'result':{'ok':True}})\nos._exit(0)\n")).await;
    assert_eq!(result, Ok(json!({ "ok": true })));
}

#[tokio::test]
async fn an_error_of_the_protocol_reaches_the_caller_and_a_stack_trace_does_not() {
    let typed = "ask()\nsay({'jsonrpc':'2.0','id':1,'error':{'code':-32602,'message':'No such persona.','data':{'near':['a']}}})\n";
    assert_eq!(
        call(python(typed)).await,
        Err(CuoError::InvalidParams { message: "No such persona.".into(), near: vec!["a".into()] })
    );
    let trace = "ask()\nsay({'jsonrpc':'2.0','id':1,'error':{'code':-32000,'message':'Traceback /srv/x.py'}})\n";
    assert!(!call(python(trace)).await.unwrap_err().to_string().contains("srv"));
}

#[tokio::test]
async fn a_child_that_floods_stderr_is_not_held_up_by_it() {
    let body = "ask()\nsys.stderr.write('x' * 50000 + '\\n')\nfor _ in range(2000): sys.stderr.write('y' * 1000 + '\\n')\nsay({'jsonrpc':'2.0','id':1,'result':{}})\n";
    assert_eq!(call(python(body)).await, Ok(json!({})));
}

#[tokio::test]
async fn an_endless_line_and_endless_lines_end_the_call_in_bounded_memory() {
    for (body, what) in [
        ("ask()\nwhile True: sys.stdout.write('x' * 65536)\n", "longer than 1 MiB"),
        (
            "ask()\nn = json.dumps({'jsonrpc':'2.0','method':'x','params':'y' * 60000})\nwhile True: say(n)\n",
            "more than 16 MiB",
        ),
    ] {
        let error =
            tokio::time::timeout(Duration::from_secs(20), call(python(body))).await.expect("it ends").unwrap_err();
        assert!(error.detail().contains(what), "{error:?}");
    }
}

#[tokio::test]
async fn a_dropped_call_ends_the_child_and_its_grandchild_and_removes_their_directory() {
    // given: both ignore SIGTERM, so that only the last resort helps
    let child = python(
        "import signal\n\
         signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
         g = subprocess.Popen([sys.executable, '-c', 'import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'])\n\
         open('pids.tmp', 'w').write(f'{os.getpid()} {g.pid}')\n\
         os.rename('pids.tmp', 'pids')\n\
         time.sleep(600)\n",
    );
    let work = child.work_dir().to_owned();
    let calling = tokio::spawn(call(child));
    assert!(eventually(|| work.join("pids").exists(), Duration::from_secs(20)).await);
    let text = std::fs::read_to_string(work.join("pids")).unwrap();
    let pids: Vec<i32> = text.split(' ').map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    // when
    calling.abort();
    // then
    assert!(eventually(|| pids.iter().all(|pid| !is_alive(*pid)), GRACE + Duration::from_secs(5)).await);
    assert!(eventually(|| !work.exists(), Duration::from_secs(2)).await);
}

#[tokio::test]
async fn a_polite_child_is_gone_long_before_the_grace_is_over_and_takes_its_grandchild_along() {
    // given: the grandchild ignores SIGTERM, the leader does not
    let child = python(
        "g = subprocess.Popen([sys.executable, '-c', 'import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open(\"ready\", \"w\"); time.sleep(600)'])\n\
         open('pids.tmp', 'w').write(f'{os.getpid()} {g.pid}')\n\
         os.rename('pids.tmp', 'pids')\n\
         time.sleep(600)\n",
    );
    let work = child.work_dir().to_owned();
    assert!(eventually(|| work.join("ready").exists() && work.join("pids").exists(), Duration::from_secs(20)).await);
    let text = std::fs::read_to_string(work.join("pids")).unwrap();
    // when
    let started = Instant::now();
    drop(child);
    // then
    let gone = || text.split(' ').all(|pid| !is_alive(pid.parse().unwrap()));
    assert!(eventually(gone, Duration::from_secs(5)).await);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[test]
fn a_runtime_that_goes_away_kills_at_once() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (work, child) = runtime.block_on(async {
        let child =
            python("open('pid.tmp', 'w').write(str(os.getpid()))\nos.rename('pid.tmp', 'pid')\ntime.sleep(600)\n");
        let work = child.work_dir().to_owned();
        assert!(eventually(|| work.join("pid").exists(), Duration::from_secs(20)).await);
        (work, child)
    });
    let pid: i32 = std::fs::read_to_string(work.join("pid")).unwrap().parse().unwrap();
    drop(runtime);
    drop(child);
    let until = Instant::now() + Duration::from_secs(2);
    while is_alive(pid) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!is_alive(pid) && !work.exists());
}

#[tokio::test]
async fn what_cannot_be_started_is_unreachable() {
    let nothing = ChildProcess::spawn(&["/nonexistent/cuo".into()], &[], tempfile::tempdir().unwrap());
    match nothing.err() {
        Some(CuoError::Unavailable { reason: Reason::Unreachable, message, detail }) => {
            assert!(detail.contains("nonexistent") && !message.contains("nonexistent"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}
