//! `warpsparse-bench solvers` as a user runs it.

mod common;

use common::{bench, number, rows};

#[test]
fn methods_and_preconditioners_are_measured() {
    let arguments =
        ["--method", "bicgstab,gmres,cg", "--precond", "none,block-jacobi,ilu", "--repeat", "1", "--device", "cpu"];
    let (text, report) = bench(&["solvers", "gen:convdiff2d:40:1"], &arguments, "solvers.json");
    let methods = ["BiCGSTAB", "GMRES(30)"];
    let expected: Vec<_> =
        ["none", "block-jacobi", "ilu"].iter().flat_map(|with| methods.map(|method| (method, *with))).collect();
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), expected.len());
    let table = rows(&text, "convdiff2d:40:1");
    for ((result, row), (method, preconditioner)) in results.iter().zip(&table).zip(expected) {
        assert_eq!((&result["method"], &result["preconditioner"]), (&method.into(), &preconditioner.into()));
        assert_eq!(number(result, "rows"), 1600.0);
        let solution = &result["solution"];
        assert!(solution["converged"] == true && number(solution, "relative_residual") <= 1.02e-8);
        assert_eq!(row[8], number(solution, "iterations").to_string());
        let label = [("none", "none"), ("block-jacobi", "block-Jacobi"), ("ilu", "ILU(0)")];
        assert!(label.contains(&(preconditioner, row[4])), "{row:?}");
        // The bytes of an iteration are known without a preconditioner.
        assert_eq!(result["bound_us"].is_number(), preconditioner == "none");
    }
    // Conjugate gradients do not suit a matrix that is not symmetric.
    let skipped = report["skipped"].as_array().unwrap();
    assert!(skipped.len() == 3 && skipped[0]["what"].as_str().unwrap().contains("conjugate gradients"), "{skipped:?}");
}
