//! The limit on one call's time.

use std::future::{self, Future};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::clock;

/// Runs `work` for at most `limit`; none, and `work` dropped, beyond it.
///
/// Work that is ready at its first poll costs no timer and no look at the clock: the limit counts
/// from the first time that it gives way, which a guest does within one tick. Afterwards work that
/// computes is found out by the clock at each poll, work that waits by a timer. Needs a tokio
/// runtime with time enabled.
pub(super) async fn within<F: Future>(limit: Duration, work: F) -> Option<F::Output> {
    let mut work = pin!(work);
    let mut timer = None;
    future::poll_fn(move |cx| {
        if let Poll::Ready(output) = work.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        let now = clock::now();
        let (end, timer) = timer.get_or_insert_with(|| {
            // Past what the clock can say is far enough.
            let end = now.checked_add(limit).unwrap_or(now + Duration::from_secs(86_400));
            (end, Box::pin(tokio::time::sleep_until(end.into())))
        });
        if now >= *end {
            return Poll::Ready(None);
        }
        timer.as_mut().poll(cx).map(|()| None)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(20);

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
    }

    #[test]
    fn work_that_is_ready_needs_no_runtime() {
        let mut ready = pin!(within(LIMIT, future::ready(7)));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert_eq!(ready.as_mut().poll(&mut cx), Poll::Ready(Some(7)));
    }

    #[test]
    fn work_that_waits_is_stopped() {
        let start = clock::now();
        assert_eq!(runtime().block_on(within(LIMIT, future::pending::<()>())), None);
        assert!(start.elapsed() >= LIMIT);
    }

    #[test]
    fn work_that_computes_is_stopped() {
        let start = clock::now();
        let work = async {
            loop {
                tokio::task::yield_now().await;
            }
        };
        assert_eq!(runtime().block_on(within(LIMIT, work)), None::<()>);
        assert!(start.elapsed() >= LIMIT);
    }

    #[test]
    fn work_that_ends_in_time_is_left_alone() {
        let work = async {
            tokio::task::yield_now().await;
            7
        };
        assert_eq!(runtime().block_on(within(Duration::MAX, work)), Some(7));
    }
}
