//! `warpsparse sgemm` and `warpsparse bench sgemm` as a user runs them.

mod common;

use common::{close, median, number, rows, stdout, us, warpsparse};
use serde_json::Value;

#[track_caller]
fn sgemm(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout(&[&["sgemm", "--json"], arguments].concat())).unwrap()
}

#[track_caller]
fn bench(arguments: &[&str], name: &str) -> (String, Value) {
    common::bench(&["sgemm", "--repeat", "30"], arguments, name)
}

#[test]
fn reports_on_a_product() {
    let text =
        stdout(&["sgemm", "-m", "6", "-n", "5", "-k", "70", "--transpose-b", "--device", "cpu", "--repeat", "3"]);
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
        let report = sgemm(&arguments);
        assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.sgemm".into(), &2.into()));
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
fn rungs_of_the_ladder_can_be_forced() {
    let arguments = ["-m", "19", "-n", "33", "-k", "7", "--device", "emulated", "--repeat", "1", "--kernel", "naive"];
    let report = sgemm(&arguments);
    assert_eq!(report["kernel"], "sgemm_ladder_naive");
    let error = number(&report, "relative_error");
    assert!(error > 0.0 && error < 1e-6 && number(&report, "error_over_bound") <= 1.0, "{report}");
    let output = warpsparse(&[&["sgemm", "--dtype", "f64"], &arguments[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("kernels of the ladder in f64"));
}

#[test]
fn tiles_and_splits_can_be_forced_and_found() {
    let arguments = ["-m", "40", "-n", "33", "-k", "300", "--device", "emulated", "--repeat", "1"];
    let report = sgemm(&[&arguments[..], &["--tile", "64x64", "--splits", "3"]].concat());
    assert_eq!(report["kernel"], "gemm_tiles_f32_64x64_a_rows_b_rows");
    let reason = "tiles of 64 x 64, 1 in all, the sums of each split among 3 blocks, as the options say";
    assert_eq!(report["reason"], reason);
    let report = sgemm(&[&arguments[..], &["--autotune"]].concat());
    assert!(report["reason"].as_str().unwrap().ends_with(", as the options say"), "{report}");
    let cases =
        [("--tile=3x4", "there are 128 x 256, "), ("--tile=3", "the form 128x64"), ("--splits=65", "1 to 64 blocks")];
    for (option, error) in cases {
        let output = warpsparse(&[&["sgemm", option], &arguments[..]].concat());
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(error), "{message}");
    }
}

#[test]
fn large_products_are_checked_in_part() {
    // 2^27 products of elements are checked: of 300 000 in a row and column, 447 elements.
    let arguments = ["sgemm", "-m", "8", "-n", "90", "-k", "300000", "--device", "cpu", "--repeat", "1"];
    let text = stdout(&arguments);
    assert!(text.contains(", in 440 of its elements from everywhere"), "{text}");
}

#[test]
fn bench_measures_shapes() {
    let arguments = ["20", "5x60x7", "--dtype", "f64", "--dtype", "f32", "--device", "cpu"];
    let (text, report) = bench(&arguments, "sgemm.json");
    assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.bench.sgemm".into(), &2.into()));
    assert_eq!((&report["skipped"], &report["method"]["rivals"]), (&Value::Array(vec![]), &Value::Array(vec![])));
    let results = report["results"].as_array().unwrap();
    let case = |result: &Value| {
        let sizes = ["m", "n", "k"].map(|size| number(result, size));
        (result["name"].as_str().unwrap().to_owned(), sizes, result["dtype"].as_str().unwrap().to_owned())
    };
    let cases = |dtype: &str| {
        [("20".to_owned(), [20.0; 3], dtype.to_owned()), ("5x60x7".to_owned(), [5.0, 60.0, 7.0], dtype.to_owned())]
    };
    let [square, uneven] = cases("f32");
    let [square64, uneven64] = cases("f64");
    assert_eq!(results.iter().map(case).collect::<Vec<_>>(), [square, square64, uneven, uneven64]);
    for result in results {
        let kernels = result["kernels"].as_array().unwrap();
        let [kernel] = &kernels[..] else { panic!("{result}") };
        assert_eq!((&kernel["name"], &kernel["kernel"]), (&"cpu".into(), &"cpu_gemm".into()));
        assert_eq!((&kernel["ratio"], &kernel["repeats"]), (&Value::Null, &30.into()));
        let operations = 2.0 * ["m", "n", "k"].map(|size| number(result, size)).iter().product::<f64>();
        close(number(kernel, "tflop_per_s"), operations / median(kernel) / 1e6);
        assert!(number(kernel, "error_over_bound") <= 1.0, "{kernel}");
    }
    // The table for f32, then that for f64.
    let lines = rows(&text, "5x60x7");
    let times: Vec<_> = results[2..].iter().map(|result| us(median(&result["kernels"][0]))).collect();
    assert_eq!(lines.iter().map(|cells| cells[2]).collect::<Vec<_>>(), times);
    assert_eq!((lines[0].len(), lines[0][1]), (7, "cpu_gemm"));
}

#[test]
fn the_ladder_sets_kernels_side_by_side() {
    // One product alone of each: the emulator is slow.
    let arguments = ["--ladder", "9", "4x17x3", "--device", "emulated", "--limit", "1e-9"];
    let (text, report) = bench(&arguments, "sgemm_ladder.json");
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for (column, result) in results.iter().enumerate() {
        let kernels = result["kernels"].as_array().unwrap();
        let names: Vec<_> = kernels.iter().map(|kernel| kernel["name"].as_str().unwrap()).collect();
        let below =
            ["naive", "shared-tile", "thread-tile1d", "thread-tile2d", "vectorised", "double-buffered", "warp-tile"];
        assert_eq!(names, [&below[..], &["async-copies", "tiles"]].concat());
        assert_eq!(kernels[0]["kernel"], "sgemm_ladder_naive");
        for kernel in kernels {
            assert!(number(kernel, "error_over_bound") <= 1.0 && kernel["ratio"] == Value::Null, "{kernel}");
            let lines = rows(&text, kernel["name"].as_str().unwrap());
            assert_eq!((lines.len(), lines[0][1 + column]), (1, (us(median(kernel)) + "¹").as_str()));
        }
    }
    assert_eq!(rows(&text, "kernel"), [["kernel", "9", "4x17x3"]]);
}

#[test]
fn long_products_are_timed_once() {
    let (text, report) = bench(&["8", "--device", "cpu", "--limit", "1e-9"], "sgemm_once.json");
    assert!(text.contains("more than 0.000000001 s, fewer are timed"), "{text}");
    let kernel = &report["results"][0]["kernels"][0];
    assert_eq!(kernel["repeats"], 1);
    assert_eq!(rows(&text, "8")[0][2], us(median(kernel)) + "¹");
}

#[test]
fn bench_tells_what_it_skips() {
    let (text, report) = bench(&["4", "--device", "cpu", "--against", "cublas,sprs"], "sgemm_skipped.json");
    assert!(text.contains("skipped cuBLAS: cuBLAS runs on GPUs"), "{text}");
    assert!(text.contains("skipped sprs: sprs does not compute this product"), "{text}");
    assert_eq!(report["results"].as_array().unwrap().len(), 2);
    let sparse = stdout(&["bench", "spmm", "gen:poisson2d:3", "-n", "2", "--device", "cpu", "--against", "cublas"]);
    assert!(sparse.contains("skipped cuBLAS: cuBLAS does not compute this product"), "{sparse}");
}

#[test]
fn wrong_usage_is_told() {
    let refusal = |arguments: &[&str]| {
        let output = warpsparse(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refusal(&["sgemm", "-m", "4", "-n", "4"]).contains("-k <K>"));
    assert!(refusal(&["sgemm", "-m", "0", "-n", "4", "-k", "4"]).contains("1..=2147483647"));
    assert!(
        refusal(&["sgemm", "-m", "4", "-n", "4", "-k", "4", "--kernel", "fast"]).contains("the kernels are naive, ")
    );
    assert!(refusal(&["sgemm", "-m", "4", "-n", "4", "-k", "4", "--dtype", "f16"]).contains("f32, f64"));
    assert!(refusal(&["sgemm", "-m", "4", "-n", "4", "-k", "4", "--repeat", "0"]).contains("1.."));
    for shape in ["4x5", "4x0x5", "0", "4x5x6x7", "2147483648", "four"] {
        assert!(refusal(&["bench", "sgemm", shape]).contains("a shape is MxNxK, such as 512x256x64"), "{shape}");
    }
    assert!(refusal(&["bench", "sgemm", "4", "--repeat", "3"]).contains("30.."));
    assert!(refusal(&["bench", "sgemm", "4", "--limit", "0"]).contains("seconds over 0"));
    assert!(refusal(&["bench", "sgemm", "4", "--against", "mkl"]).contains("cublas"));
}
