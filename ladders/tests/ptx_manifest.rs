//! The checked-in PTX is what the kernel sources say, as far as that can be told without building it, and the tables of entries are sound.
#![cfg(feature = "cuda")]

#[path = "../ptx/prebuilt.rs"]
mod prebuilt;

use std::{collections::BTreeMap, path::Path};

use cuda_builder::PtxInfo;
use kernels_gpu::DType;
use ladder_kernels::{
    FAMILIES, cg_ladder, sgemm_ladder, spmm_atomic,
    spmm_ladder::{self, Rung},
};

#[test]
fn the_manifest_and_the_files_match_the_sources() {
    let problems = prebuilt::prebuilt(Path::new(env!("CARGO_MANIFEST_DIR"))).verify().unwrap();
    assert!(problems.is_empty(), "run `cargo xtask kernels` and commit ladders/ptx/:\n  {}", problems.join("\n  "));
}

#[test]
fn the_entries_are_those_of_the_tables() {
    let prebuilt = prebuilt::prebuilt(Path::new(env!("CARGO_MANIFEST_DIR")));
    for file in prebuilt.files() {
        let info = PtxInfo::parse(&prebuilt.text(&file).unwrap()).unwrap();
        let family = FAMILIES.iter().find(|family| family.name == file.family).unwrap();
        let expected: BTreeMap<_, _> =
            family.entries.iter().map(|entry| (entry.name.to_owned(), entry.args_bytes as u32)).collect();
        assert_eq!(info.entries, expected, "{}: run `cargo xtask kernels` and commit ladders/ptx/", file.name());
    }
}

/// `cargo xtask ptx --show` finds families and entries of both crates by their names.
#[test]
fn names_are_unique() {
    let families = kernels_gpu::FAMILIES.iter().chain(FAMILIES);
    let entries = families.flat_map(|family| family.entries.iter().map(|entry| entry.name).chain([family.name]));
    let mut names: Vec<_> = entries.collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}

/// Where a key and the body beside it could tell different things, the name of the entry is their witness.
#[test]
fn names_are_those_of_the_keys() {
    for key in spmm_ladder::KEYS {
        let (rung, end) = match key.rung {
            Rung::RowPerThread => ("row_per_thread", String::new()),
            Rung::ElementPerThread => ("element_per_thread", String::new()),
            Rung::RowCaching { tiles } => ("row_caching", format!("_c{tiles}")),
        };
        let dtype = if key.dtype == DType::F32 { "f32" } else { "f64" };
        let offset = if key.offset_bytes == 4 { "" } else { "_o64" };
        assert_eq!(key.entry().name, format!("spmm_ladder_{rung}_{dtype}{offset}{end}"));
    }
}

/// Every key stands for an entry of its own.
#[test]
fn keys_are_unique() {
    macro_rules! check {
        ($($family:ident)*) => {$(
            for (place, key) in $family::KEYS.iter().enumerate() {
                assert_eq!(key.entry().name, $family::FAMILY.entries[place].name, "{key:?}");
            }
        )*};
    }
    check!(cg_ladder sgemm_ladder spmm_atomic spmm_ladder);
}
