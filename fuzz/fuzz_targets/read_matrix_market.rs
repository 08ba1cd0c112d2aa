//! libFuzzer's entry to `warpsparse_fuzz::matrix_market`.
#![no_main]

use warpsparse_fuzz::matrix_market::check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check(bytes));
