//! Two lanes for calls: they start on the executor that serves everybody, and one that computes for longer than ordinary
//! calls do goes on on threads of its own, to which the kernel gives less of the processor. So whoever is called flat out
//! by a spinning guest still answers others as if it were nearly alone: a worker that wakes up for them does not find its
//! core taken.
//!
//! Knows futures, nothing of guests.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use tokio::runtime::Runtime as Executor;
use tokio::task::JoinHandle;

/// Slices of [`super::engine::TICK`] that a call may use in the lane where it started. Ordinary calls need one.
const FREE_SLICES: u32 = 4;

/// Added to the threads' nice value. At 10 a thread gets about a tenth of what one at 0 gets, when both want the core.
const NICE: i32 = 10;

/// How many slices a call has used. Shared by the guest's end of it, which counts, and the lane's.
#[derive(Clone, Default)]
pub struct Pace(Arc<AtomicU32>);

impl Pace {
    pub fn count_slice(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn is_slow(&self) -> bool {
        self.0.load(Ordering::Relaxed) > FREE_SLICES
    }
}

/// The slow lane's threads exist from the first slow call on.
#[derive(Default)]
pub struct Lanes {
    slow: OnceLock<Option<Executor>>,
}

impl Lanes {
    /// Drive `call` to its end, in whichever lane. Dropping the future drops `call`, in the slow lane at its next pause.
    pub async fn drive<T: Send + 'static>(&self, call: impl Future<Output = T> + Send + 'static, pace: &Pace) -> T {
        let mut call = Some(Box::pin(call));
        let early = std::future::poll_fn(|context| {
            let running = call.as_mut().expect("it is taken below alone");
            match running.as_mut().poll(context) {
                Poll::Ready(ended) => Poll::Ready(Some(ended)),
                Poll::Pending if pace.is_slow() => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
        if let Some(ended) = early {
            return ended;
        }
        let call = call.take().expect("it did not end");
        match self.slow.get_or_init(slow_lane) {
            None => call.await,
            Some(slow) => Moved(slow.spawn(call)).await,
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        // An executor that waits for its threads must not be dropped inside another one.
        if let Some(Some(slow)) = self.slow.take() {
            slow.shutdown_background();
        }
    }
}

/// `None`: no thread could be started, and slow calls stay where they are.
fn slow_lane() -> Option<Executor> {
    let started = tokio::runtime::Builder::new_multi_thread()
        .thread_name("slow-lane")
        .on_thread_start(|| {
            // On Linux the nice value is the calling thread's own.
            if let Err(error) = rustix::process::setpriority_process(None, NICE) {
                tracing::debug!(%error, "a thread of the slow lane could not be given a lower priority");
            }
        })
        .enable_all()
        .build();
    started.inspect_err(|error| tracing::warn!(%error, "slow calls have no threads of their own")).ok()
}

/// A call in the slow lane. Ends with whoever waits for it.
struct Moved<T>(JoinHandle<T>);

impl<T> Future for Moved<T> {
    type Output = T;
    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(context).map(|joined| match joined {
            Ok(ended) => ended,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => unreachable!("only its owner, which is waiting, aborts it"),
            },
        })
    }
}

impl<T> Drop for Moved<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    async fn computes_for_long(pace: Pace) -> String {
        for _ in 0..20 {
            pace.count_slice();
            tokio::task::yield_now().await;
        }
        std::thread::current().name().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn only_a_slow_call_changes_lanes() {
        let lanes = Lanes::default();
        let quick = lanes.drive(async { std::thread::current().name().map(str::to_owned) }, &Pace::default()).await;
        assert_eq!(quick.as_deref(), std::thread::current().name());
        assert!(lanes.slow.get().is_none(), "nobody needed it");
        let pace = Pace::default();
        assert_eq!(lanes.drive(computes_for_long(pace.clone()), &pace).await, "slow-lane");
    }

    #[tokio::test]
    async fn who_stops_waiting_ends_the_call_in_either_lane() {
        let lanes = Lanes::default();
        for slices in [0, 20] {
            let (alive, pace) = (Arc::new(()), Pace::default());
            let call = {
                let (alive, pace) = (alive.clone(), pace.clone());
                async move {
                    let _alive = alive;
                    for _ in 0..slices {
                        pace.count_slice();
                        tokio::task::yield_now().await;
                    }
                    std::future::pending::<()>().await;
                }
            };
            let waited = tokio::time::timeout(Duration::from_millis(20), lanes.drive(call, &pace)).await;
            assert!(waited.is_err());
            for _ in 0..100 {
                if Arc::strong_count(&alive) > 1 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
            assert_eq!(Arc::strong_count(&alive), 1);
        }
    }

    #[tokio::test]
    async fn a_panic_in_the_slow_lane_reaches_its_caller() {
        let (lanes, pace) = (Lanes::default(), Pace::default());
        let call = {
            let pace = pace.clone();
            async move {
                computes_for_long(pace).await;
                panic!("on purpose");
            }
        };
        let caught = tokio::spawn(async move { lanes.drive::<()>(call, &pace).await }).await.unwrap_err();
        assert!(caught.is_panic());
    }
}
