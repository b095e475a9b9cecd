//! What the pool promises: exclusive leases, counted shares, brakes that wake, and a report instead of a failure.

use super::*;
use std::future::Future;
use std::pin::pin;
use std::task::Context;

#[test]
fn a_lease_is_exclusive_until_its_last_share_is_gone() {
    let pool = Pool::unregistered(1, 1).unwrap();
    let mut lease = pool.try_take().unwrap();
    assert!(pool.try_take().is_none());
    lease[PIECE_BYTES - 1] = 7;
    let share = lease.share();
    let other = share.clone();
    let share = share.try_into_lease().unwrap_err();
    drop(share);
    assert!(pool.try_take().is_none());
    assert_eq!(other[PIECE_BYTES - 1], 7);
    let lease = other.try_into_lease().unwrap();
    drop(lease);
    assert_eq!((pool.free_pieces(), pool.free_stages()), (1, 1));
}

#[test]
fn pieces_and_stages_are_aligned_and_apart() {
    let pool = Pool::unregistered(2, 2).unwrap();
    let mut all = [
        pool.try_take().unwrap(),
        pool.try_take().unwrap(),
        pool.try_take_stage().unwrap(),
        pool.try_take_stage().unwrap(),
        pool.one_off(5000).unwrap(),
    ];
    for (i, lease) in all.iter_mut().enumerate() {
        assert_eq!(lease.as_ptr().align_offset(DIRECT_ALIGN_BYTES_MAX), 0);
        lease.fill(i as u8 + 1);
    }
    for (i, lease) in all.iter().enumerate() {
        assert!(lease.iter().all(|byte| *byte == i as u8 + 1));
    }
    assert_eq!(pool.one_offs(), 1);
}

#[test]
fn a_taker_waits_until_a_buffer_comes_back() {
    let pool = Pool::unregistered(1, 0).unwrap();
    let lease = pool.try_take().unwrap();
    let mut waiting = pin!(pool.take());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut cx).is_pending());
    drop(lease);
    assert!(waiting.as_mut().poll(&mut cx).is_ready());
}

#[test]
fn what_the_host_lacks_is_reported_with_its_remedy() {
    tokio_uring::start(async {
        let pool = Pool::new(2, 1).unwrap();
        let report = pool.report();
        assert_eq!(report.pages == Pages::Huge, report.pages_missing.is_none());
        if let Some(missing) = &report.pages_missing {
            assert!(missing.contains("vm.nr_hugepages"), "{missing}");
        }
        let lease = pool.try_take().unwrap();
        assert_eq!(lease.fixed_index().is_some(), report.registration_missing.is_none());
        let second = Pool::new(1, 1).unwrap();
        assert!(second.report().registration_missing.as_ref().is_some_and(|why| why.contains("memory")));
        assert_eq!(second.try_take().unwrap().fixed_index(), None);
    });
}

#[test]
fn a_pool_too_large_to_register_is_refused() {
    assert!(Pool::unregistered(PIECES_PER_CORE_MAX + 1, 0).is_err());
}
