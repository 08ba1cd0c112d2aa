//! The checked-in PTX is what the kernel sources say, as far as that can be told without building it.
#![cfg(feature = "cuda")]

#[path = "../ptx/prebuilt.rs"]
mod prebuilt;

use std::{collections::BTreeMap, path::Path};

use cuda_builder::{Prebuilt, PtxInfo};

fn prebuilt() -> Prebuilt {
    prebuilt::prebuilt(Path::new(env!("CARGO_MANIFEST_DIR")))
}

#[test]
fn the_manifest_and_the_files_match_the_sources() {
    let problems = prebuilt().verify().unwrap();
    assert!(problems.is_empty(), "run `cargo xtask kernels` and commit ptx/:\n  {}", problems.join("\n  "));
}

#[test]
fn machine_code_is_kept_for_compute_capability_9() {
    let (prebuilt, mut families) = (prebuilt(), 0);
    let manifest = prebuilt.manifest().unwrap();
    for file in prebuilt.files().iter().filter(|file| file.arch.compute_capability() == 90) {
        let name = file.name();
        assert!(manifest.files[&name].cubin.is_some(), "{name}: run `cargo xtask kernels` and commit ptx/");
        families += 1;
    }
    assert_eq!(families, kernels_gpu::FAMILIES.len());
}

#[test]
fn the_entries_are_those_of_the_tables() {
    let prebuilt = prebuilt();
    for file in prebuilt.files() {
        let info = PtxInfo::parse(&prebuilt.text(&file).unwrap()).unwrap();
        let family = kernels_gpu::FAMILIES.iter().find(|family| family.name == file.family).unwrap();
        let expected: BTreeMap<_, _> =
            family.entries.iter().map(|entry| (entry.name.to_owned(), entry.args_bytes as u32)).collect();
        assert_eq!(info.entries, expected, "{}: run `cargo xtask kernels` and commit ptx/", file.name());
    }
}

#[test]
fn entry_names_begin_with_the_familys_and_are_unique() {
    let mut seen = BTreeMap::new();
    for family in kernels_gpu::FAMILIES {
        for entry in family.entries {
            let other = seen.insert(entry.name, family.name);
            assert_eq!(other, None, "{} is in {} too", entry.name, family.name);
            assert!(entry.name.starts_with(&format!("{}_", family.name)), "{} of {}", entry.name, family.name);
        }
    }
}
