//! libFuzzer's entry to `warpsparse_fuzz::bsr`.
#![no_main]

use warpsparse_fuzz::bsr::{Input, check};

libfuzzer_sys::fuzz_target!(|input: Input| check(&input));
