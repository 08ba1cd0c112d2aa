//! The bodies of the fuzz targets over the inputs that are kept: plain code, without libFuzzer.

use std::{fs, path::Path};

use arbitrary::{Arbitrary, Unstructured};
use warpsparse_fuzz::{bsr, constructors, matrix_market};

/// One test, since the allocator counts what all threads allocate.
#[test]
fn every_input_is_survived() {
    for_inputs("../tests/data/corpus", matrix_market::check);
    for_inputs("seeds/constructors", |bytes| {
        let input = constructors::Input::arbitrary_take_rest(Unstructured::new(bytes)).expect("enough bytes");
        constructors::check(&input);
    });
    for_inputs("seeds/bsr_constructors", |bytes| {
        let input = bsr::Input::arbitrary_take_rest(Unstructured::new(bytes)).expect("enough bytes");
        bsr::check(&input);
    });
}

/// Calls `check` with each file of a folder.
fn for_inputs(folder: &str, check: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files: Vec<_> = fs::read_dir(&folder).expect("a folder").map(|file| file.expect("a file").path()).collect();
    assert!(files.len() > 50, "{} files in {}", files.len(), folder.display());
    for file in files {
        // Seen only if the check fails.
        println!("{}", file.display());
        check(&fs::read(&file).expect("a file"));
    }
}
