//! `warpsparse-bench gemm` as a user runs it.

mod common;

use common::{close, median, number, rows, run, stdout, us};
use serde_json::Value;

#[track_caller]
fn bench(arguments: &[&str], name: &str) -> (String, Value) {
    common::bench(&["gemm", "--repeat", "30"], arguments, name)
}

#[test]
fn bench_measures_shapes() {
    let arguments = ["20", "5x60x7", "--dtype", "f64", "--dtype", "f32", "--device", "cpu"];
    let (text, report) = bench(&arguments, "gemm.json");
    assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.bench.gemm".into(), &2.into()));
    assert_eq!((&report["skipped"], &report["method"]["baselines"]), (&Value::Array(vec![]), &Value::Array(vec![])));
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
        let (largest, median) = (number(kernel, "error_over_bound"), number(kernel, "median_error_over_bound"));
        assert!(0.0 < median && median < largest && largest <= 1.0, "{kernel}");
    }
    // The table for f32, then that for f64.
    let lines = rows(&text, "5x60x7");
    let times: Vec<_> = results[2..].iter().map(|result| us(median(&result["kernels"][0]))).collect();
    assert_eq!(lines.iter().map(|cells| cells[2]).collect::<Vec<_>>(), times);
    assert_eq!((lines[0].len(), lines[0][1]), (9, "cpu_gemm"));
    let kernel = &results[2]["kernels"][0];
    let errors = ["relative_error", "error_over_bound", "median_error_over_bound"];
    assert_eq!(lines[0][6..], errors.map(|error| format!("{:.1e}", number(kernel, error))));
}

/// Numbers of each kind, and what sums of them are: positive ones have no small relative errors by chance, others cancel.
#[test]
fn other_numbers_are_multiplied() {
    let mut norms = Vec::new();
    for numbers in ["random", "positive", "scaled", "cancelling"] {
        let arguments = ["40x30x64", "--device", "cpu", "--dtype", "f32", "--numbers", numbers];
        let (_, report) = bench(&arguments, &format!("gemm_{numbers}.json"));
        let kernel = &report["results"][0]["kernels"][0];
        assert!(number(kernel, "error_over_bound") <= 1.0, "{kernel}");
        norms.push(number(kernel, "relative_error"));
    }
    // Relative to sums that are a thousandth of what is added up.
    assert!(norms[3] > 100.0 * norms[0] && norms[1] < norms[0], "{norms:?}");
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
        assert_eq!(names, [&below[..], &["async-copies", "tensor-cores", "tiles"]].concat());
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
    let sparse = stdout(&["spmm", "gen:poisson2d:3", "-n", "2", "--device", "cpu", "--against", "cublas"]);
    assert!(sparse.contains("skipped cuBLAS: cuBLAS does not compute this product"), "{sparse}");
}

#[test]
fn wrong_usage_is_told() {
    let refusal = |arguments: &[&str]| {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for shape in ["4x5", "4x0x5", "0", "4x5x6x7", "2147483648", "four"] {
        assert!(refusal(&["gemm", shape]).contains("a shape is MxNxK, such as 512x256x64"), "{shape}");
    }
    assert!(refusal(&["gemm", "4", "--repeat", "3"]).contains("30.."));
    assert!(refusal(&["gemm", "4", "--limit", "0"]).contains("seconds over 0"));
    assert!(refusal(&["gemm", "4", "--against", "mkl"]).contains("cublas"));
}
