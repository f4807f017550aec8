//! How often a decomposition needed its second and third algorithm; counted in tests only.

#[cfg(test)]
use std::sync::atomic::AtomicUsize;

/// Divide and conquer failed the check.
#[cfg(test)]
pub(crate) static DIVIDE_AND_CONQUER: AtomicUsize = AtomicUsize::new(0);
/// The QR iteration failed the check.
#[cfg(test)]
pub(crate) static ITERATION: AtomicUsize = AtomicUsize::new(0);
/// The Jacobi iteration ran.
#[cfg(test)]
pub(crate) static LAST_RESORT: AtomicUsize = AtomicUsize::new(0);

#[cfg(test)]
thread_local! {
    /// How often, on this thread, the singular value decomposition took another way than its first.
    pub(crate) static SVD: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The first way of a singular value decomposition failed, by its own account or by the check.
#[cold]
pub(crate) fn count_svd() {
    #[cfg(test)]
    SVD.set(SVD.get() + 1);
}

/// One algorithm's factors failed the check: divide and conquer's, or the QR iteration's.
#[cold]
pub(crate) fn count(divide_and_conquer: bool) {
    #[cfg(test)]
    {
        let counter = if divide_and_conquer {
            &DIVIDE_AND_CONQUER
        } else {
            &ITERATION
        };
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    let _ = divide_and_conquer;
}

/// The Jacobi iteration runs.
#[cold]
pub(crate) fn count_last_resort() {
    #[cfg(test)]
    LAST_RESORT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
}
