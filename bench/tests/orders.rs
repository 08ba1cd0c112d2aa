//! `warpsparse-bench orders` as a user runs it.

mod common;

use common::{bench, median, number, rows};

#[test]
fn orders_are_measured_in_products() {
    let arguments = ["gen:poisson2d:20", "gen:uniform:60:4:200", "--device", "cpu"];
    let (text, report) = bench(&["orders"], &arguments, "orders.json");
    assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.bench.orders".into(), &1.into()));
    let results = report["results"].as_array().unwrap();
    assert_eq!((results.len(), &results[0]["name"], &results[0]["entries"]), (2, &"poisson2d:20".into(), &1920.into()));
    let [rcm, clustering] = [&results[0]["rcm"], &results[0]["clustering"]];
    for order in [rcm, clustering] {
        for (time, product) in [("spmv_products", "spmv_us"), ("spmm_products", "spmm_us")] {
            assert_eq!(number(order, time), median(order) / number(&results[0][product], "median"));
        }
    }
    // No order of the grid has a smaller bandwidth.
    assert_eq!(rcm["bandwidth"][1], 20);
    assert!(rcm["bandwidth"][0].as_u64() > Some(200));
    assert!(results[1]["rcm"].is_null());
    let [first, second] = [rows(&text, "poisson2d:20"), rows(&text, "uniform:60:4:200")];
    assert_eq!((first.len(), first[0][1], first[0][2]), (2, "f32", "1920"));
    assert_eq!((second[0][5], second[1][5] == "–"), ("–", false));
}
