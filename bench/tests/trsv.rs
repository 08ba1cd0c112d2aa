//! `warpsparse-bench trsv` as a user runs it.

mod common;

use common::{bench, number, rows};

#[test]
fn both_factors_are_measured() {
    let (text, report) = bench(&["trsv", "gen:poisson2d:9"], &["--device", "cpu", "--dtype", "f64"], "trsv.json");
    for (index, factor) in ["L", "U"].into_iter().enumerate() {
        let result = &report["results"][index];
        assert_eq!((number(result, "rows"), number(result, "levels")), (81.0, 17.0));
        // The diagonal, and one entry a row for each of two neighbours.
        assert_eq!(number(result, "entries"), f64::from(81 + 2 * 72));
        assert!(number(result, "error") <= 2.0 && result["cusparse"].is_null());
        assert_eq!(rows(&text, "poisson2d:9")[index][1..6], ["f64", factor, "81", "225", "17"]);
    }
}
