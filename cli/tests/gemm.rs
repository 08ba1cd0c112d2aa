//! `warpsparse gemm` as a user runs it.

mod common;

use common::{close, median, number, stdout, warpsparse};
use serde_json::Value;

#[track_caller]
fn gemm(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout(&[&["gemm", "--json"], arguments].concat())).unwrap()
}

#[test]
fn reports_on_a_product() {
    let text = stdout(&["gemm", "-m", "6", "-n", "5", "-k", "70", "--transpose-b", "--device", "cpu", "--repeat", "3"]);
    let matrices = ["A          6 x 70, row-major\n", "B          70 x 5, the transpose of a row-major matrix\n"];
    let others = ["C          6 x 5, row-major; all f32\n", "kernel     cpu_gemm\n", "median of 3", "TFLOP/s\n"];
    for part in [&matrices[..], &others, &["relative to the product in f64\n"]].concat() {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

#[test]
fn json_has_the_figures() {
    let cases = [("f32", 4, 1e-6, [false, false]), ("f32", 4, 1e-6, [true, true]), ("f64", 8, 1e-14, [false, true])];
    for (dtype, bytes, most, transposed) in cases {
        let mut arguments =
            vec!["-m", "30", "-n", "40", "-k", "50", "--dtype", dtype, "--device", "cpu", "--repeat", "4"];
        arguments.extend(transposed[0].then_some("--transpose-a"));
        arguments.extend(transposed[1].then_some("--transpose-b"));
        let report = gemm(&arguments);
        assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.gemm".into(), &2.into()));
        assert_eq!(["m", "n", "k"].map(|size| number(&report, size)), [30.0, 40.0, 50.0]);
        assert_eq!(["transpose_a", "transpose_b"].map(|it| report[it].as_bool().unwrap()), transposed);
        assert_eq!((&report["dtype"], &report["kernel"]), (&dtype.into(), &"cpu_gemm".into()));
        assert_eq!((number(&report, "repeats"), number(&report, "checked_elements")), (4.0, 1200.0));
        assert_eq!(report["bytes"], bytes * (30 * 50 + 50 * 40 + 30 * 40));
        close(number(&report, "tflop_per_s"), 2.0 * 30.0 * 40.0 * 50.0 / median(&report) / 1e6);
        // Nobody tells what a CPU could do.
        assert_eq!(report["percent_of_peak"], Value::Null);
        let error = number(&report, "relative_error");
        assert!(error > 0.0 && error < most && number(&report, "error_over_bound") <= 1.0, "{report}");
    }
}

#[test]
fn tiles_and_splits_can_be_forced_and_found() {
    let arguments = ["-m", "40", "-n", "33", "-k", "300", "--device", "emulated", "--repeat", "1"];
    let report = gemm(&[&arguments[..], &["--tile", "64x64", "--split-k", "3"]].concat());
    assert_eq!(report["kernel"], "gemm_tiles_f32_64x64_a_rows_b_rows");
    let reason = "tiles of 64 x 64, 1 in all, the sums of each split among 3 blocks, as the options specify";
    assert_eq!(report["reason"], reason);
    let report = gemm(&[&arguments[..], &["--dtype", "f64", "--tensor-cores", "true", "--tile", "64x64"]].concat());
    assert_eq!(report["kernel"], "gemm_dmma_f64_64x64_a_rows_b_rows");
    assert!(report["reason"].as_str().unwrap().ends_with(", on the tensor cores"), "{report}");
    let report = gemm(&[&arguments[..], &["--tensor-cores", "true"]].concat());
    assert_eq!(report["kernel"], "gemm_tf32_f32_128x128_a_rows_b_rows");
    assert!(report["reason"].as_str().unwrap().ends_with(", by three products of TF32"), "{report}");
    let report = gemm(&[&arguments[..], &["--autotune"]].concat());
    assert!(report["reason"].as_str().unwrap().ends_with(", as the options specify"), "{report}");
    let cases =
        [("--tile=3x4", "there are 128 x 256, "), ("--tile=3", "the form 128x64"), ("--split-k=65", "1 to 64 blocks")];
    for (option, error) in cases {
        let output = warpsparse(&[&["gemm", option], &arguments[..]].concat());
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(error), "{message}");
    }
}

#[test]
fn large_products_are_checked_in_part() {
    // 2^27 products of elements are checked: of 300 000 in a row and column, 447 elements.
    let arguments = ["gemm", "-m", "8", "-n", "90", "-k", "300000", "--device", "cpu", "--repeat", "1"];
    let text = stdout(&arguments);
    assert!(text.contains(", in 440 of its elements from everywhere"), "{text}");
}

#[test]
fn wrong_usage_is_told() {
    let refusal = |arguments: &[&str]| {
        let output = warpsparse(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refusal(&["gemm", "-m", "4", "-n", "4"]).contains("-k <K>"));
    assert!(refusal(&["gemm", "-m", "0", "-n", "4", "-k", "4"]).contains("1..=2147483647"));
    assert!(refusal(&["gemm", "-m", "4", "-n", "4", "-k", "4", "--dtype", "f16"]).contains("f32, f64"));
    assert!(refusal(&["gemm", "-m", "4", "-n", "4", "-k", "4", "--repeat", "0"]).contains("1.."));
}
