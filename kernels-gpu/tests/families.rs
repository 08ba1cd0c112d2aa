//! The families are those of the files, and stand alone: a family's PTX depends on its own files and on what all share.

use std::{fs, path::Path};

use kernels_gpu::{
    DType, FAMILIES, SOURCE_DIR, cg_csr, cg_persistent, gemm_dmma, gemm_tf32, gemm_tiles, half_precision, spmm_bsr,
    spmm_csr, spmm_csr_reduce, spmv_bsr, spmv_csr_adaptive, spmv_csr_packed, spmv_csr_vector,
};

/// The families' files, as (name, text): a file that declares a family, and for a folder also the files beside it.
fn files() -> Vec<(String, String)> {
    let mut files = Vec::new();
    walk(Path::new(SOURCE_DIR), &mut files);
    files
}

fn walk(dir: &Path, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, files);
        } else {
            let in_folder = path.with_file_name("mod.rs").exists();
            let name = if in_folder { path.parent().unwrap() } else { &path }.file_stem().unwrap();
            files.push((name.to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn every_file_that_declares_a_family_is_one() {
    let declares = |text: &str| text.lines().any(|line| line.trim_start() == "family! {");
    let mut declared: Vec<_> = files().into_iter().filter(|(_, text)| declares(text)).map(|(name, _)| name).collect();
    declared.sort();
    let families: Vec<_> = FAMILIES.iter().map(|family| family.name).collect();
    assert_eq!(declared, families);
}

#[test]
fn no_family_uses_another() {
    for (name, text) in files() {
        for other in FAMILIES.iter().map(|family| family.name).filter(|other| *other != name) {
            let in_use = |line: &str| !line.trim_start().starts_with("//") && line.contains(&format!("{other}::"));
            assert!(name == "lib" || !text.lines().any(in_use), "{name} uses {other}");
        }
    }
}

#[test]
fn builds_leave_out_other_families() {
    let text = fs::read_to_string(Path::new(SOURCE_DIR).join("lib.rs")).unwrap();
    let lines: Vec<_> = text.lines().map(str::trim_start).filter(|line| !line.starts_with("#[path")).collect();
    for family in FAMILIES {
        let module = lines.iter().position(|line| *line == format!("pub mod {};", family.name)).unwrap();
        let cfg = format!(r#"#[cfg(any(not(target_arch = "nvptx64"), kernel_family = "{}"))]"#, family.name);
        assert_eq!(lines[module - 1], cfg);
    }
}

/// Where a key and the body beside it could tell different things, the name of the entry is their witness.
#[test]
fn names_are_those_of_the_keys() {
    let of = |dtype| if dtype == DType::F32 { "f32" } else { "f64" };
    let width = |offset_bytes| if offset_bytes == 4 { "" } else { "_o64" };
    for key in spmv_csr_vector::KEYS {
        let (dtype, offset, lanes) = (of(key.dtype), width(key.offset_bytes), key.lanes);
        assert_eq!(key.entry().name, format!("spmv_csr_vector_{dtype}{offset}_t{lanes}"));
    }
    for key in spmv_csr_adaptive::KEYS {
        let (dtype, offset, lanes) = (of(key.dtype), width(key.offset_bytes), key.lanes);
        assert_eq!(key.entry().name, format!("spmv_csr_adaptive_{dtype}{offset}_t{lanes}"));
    }
    for key in spmv_csr_packed::KEYS {
        let values = match key.values {
            spmv_csr_packed::Values::Full => "",
            spmv_csr_packed::Values::Coded => "_coded",
            spmv_csr_packed::Values::One => "_one",
        };
        let (dtype, bits, lanes) = (of(key.dtype), 8 * key.column_bytes, key.lanes);
        assert_eq!(key.entry().name, format!("spmv_csr_packed_{dtype}_c{bits}{values}_t{lanes}"));
    }
    for key in spmv_bsr::KEYS {
        assert_eq!(key.entry().name, format!("spmv_bsr_{}_b{}", of(key.dtype), key.size));
    }
    for key in spmm_bsr::KEYS {
        assert_eq!(key.entry().name, format!("spmm_bsr_{}_b{}", of(key.dtype), key.size));
    }
    for key in cg_csr::KEYS {
        let compensated = if key.compensated { "_compensated" } else { "" };
        assert_eq!(key.entry().name, format!("cg_csr_{}_t{}{compensated}", of(key.dtype), key.lanes));
    }
    for key in cg_persistent::KEYS {
        let one = if key.reductions == cg_persistent::Reductions::One { "one_" } else { "" };
        assert_eq!(key.entry().name, format!("cg_persistent_{one}{}_t{}", of(key.dtype), key.lanes));
    }
    for key in spmm_csr::KEYS {
        let spmm_csr::Key { dtype, tile } = *key;
        let (vector, lanes, coarsening) = (tile.vector, tile.lanes, tile.coarsening);
        assert_eq!(key.entry().name, format!("spmm_csr_{}_v{vector}_t{lanes}_c{coarsening}", of(dtype)));
    }
    for key in spmm_csr_reduce::KEYS {
        let kind = if key.extremum { "extremum" } else { "sum" };
        let (vector, lanes) = (key.tile.vector, key.tile.lanes);
        assert_eq!(key.entry().name, format!("spmm_csr_reduce_{kind}_{}_v{vector}_t{lanes}", of(key.dtype)));
    }
    for key in half_precision::KEYS {
        let format = match key.format {
            half_precision::Format::Bf16 => "bf16",
            half_precision::Format::F16 => "f16",
        };
        let operation = match key.operation {
            half_precision::Operation::Product { weighted: false, lanes } => format!("t{lanes}"),
            half_precision::Operation::Product { weighted: true, lanes } => format!("weighted_t{lanes}"),
            half_precision::Operation::Pieces => "pieces".into(),
            half_precision::Operation::FromF32 => "from_f32".into(),
            half_precision::Operation::ToF32 => "to_f32".into(),
        };
        assert_eq!(key.entry().name, format!("half_precision_{format}_{operation}"));
    }
    for key in gemm_tiles::KEYS {
        let order = |by_rows| if by_rows { "rows" } else { "cols" };
        let (dtype, rows, cols) = (of(key.dtype), key.tile.rows(), key.tile.cols());
        let (a, b) = (order(key.a_by_rows), order(key.b_by_rows));
        assert_eq!(key.entry().name, format!("gemm_tiles_{dtype}_{rows}x{cols}_a_{a}_b_{b}"));
    }
    for key in gemm_dmma::KEYS {
        let order = |by_rows| if by_rows { "rows" } else { "cols" };
        let (rows, cols, a, b) = (key.tile.rows(), key.tile.cols(), order(key.a_by_rows), order(key.b_by_rows));
        assert_eq!(key.entry().name, format!("gemm_dmma_f64_{rows}x{cols}_a_{a}_b_{b}"));
    }
    for key in gemm_tf32::KEYS {
        let order = |by_rows| if by_rows { "rows" } else { "cols" };
        let (rows, cols, a, b) = (key.tile.rows(), key.tile.cols(), order(key.a_by_rows), order(key.b_by_rows));
        assert_eq!(key.entry().name, format!("gemm_tf32_f32_{rows}x{cols}_a_{a}_b_{b}"));
    }
}

/// Every key stands for an entry of its own.
#[test]
fn keys_are_unique() {
    macro_rules! check {
        ($($family:ident)*) => {$(
            for (place, key) in kernels_gpu::$family::KEYS.iter().enumerate() {
                assert_eq!(key.entry().name, kernels_gpu::$family::FAMILY.entries[place].name, "{key:?}");
            }
        )*};
    }
    check!(cg_csr cg_mixed cg_persistent cg_steps compact csr_canonical csr_kronecker csr_merge csr_select);
    check!(bsr_to_csr bsr_values csr_to_bsr csr_to_coo csr_to_dia csr_to_ell padded_to_csr);
    check!(csr_sort_rows csr_structure csr_transpose dense_copy gemm_dmma gemm_tf32 gemm_tiles gemm_wgmma histogram matrix_diagonal matrix_scale);
    check!(half_precision prefix_sum radix_count radix_sort run_sums spgemm_bitmap spgemm_gather spgemm_hash spgemm_rows);
    check!(spgemm_short spgemm_triple spgemm_values spmm_csr spmm_csr_reduce spmv_coo spmv_csr_adaptive spmv_csr_scatter spmv_csr_vector);
    check!(spmm_bsr spmv_bsr spmv_dia spmv_ell triplets vector_axpby vector_map vector_move vector_random vector_reduce vector_scale);
}
