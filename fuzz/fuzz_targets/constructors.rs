//! libFuzzer's entry to `warpsparse_fuzz::constructors`.
#![no_main]

use warpsparse_fuzz::constructors::{Input, check};

libfuzzer_sys::fuzz_target!(|input: Input| check(&input));
