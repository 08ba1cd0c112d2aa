//! Numbers that kernels take from the host or from the device's memory.

use core::ptr;

use cuda_std::mem;

use crate::{Scalar, args::args};

args! {
    /// `value * *numerator / *denominator`, where a null pointer stands for 1.
    pub struct Factor<T> {
        /// Known to the host.
        value value: T,
        /// One element, or null.
        read numerator: T [null or 1],
        /// One element, or null.
        read denominator: T [null or 1],
    }
}

impl<T: Scalar> Factor<T> {
    /// A number of the host's.
    #[must_use]
    pub const fn of(value: T) -> Self {
        Self { value, numerator: ptr::null(), denominator: ptr::null() }
    }

    /// The number.
    ///
    /// # Safety
    /// What is not null is live global memory that nothing writes during the launch.
    #[inline(always)]
    pub(crate) unsafe fn load(self) -> T {
        let mut value = self.value;
        // SAFETY: the caller's promise.
        unsafe {
            if !self.numerator.is_null() {
                value = value * mem::load(self.numerator);
            }
            if !self.denominator.is_null() {
                value = value / mem::load(self.denominator);
            }
        }
        value
    }
}
