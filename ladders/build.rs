//! Embeds the kernels' PTX: the prebuilt texts where they match the kernel sources, otherwise what is built here and now.

use std::process::ExitCode;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "cuda")]
    if let Err(error) = cuda::embed() {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

#[cfg(feature = "cuda")]
#[path = "ptx/prebuilt.rs"]
mod prebuilt;

#[cfg(feature = "cuda")]
mod cuda {
    use std::{env, error::Error, fmt::Write, fs, path::PathBuf};

    /// Writes `embedded.rs`, the table of families, compute capabilities and texts that src/kernel.rs includes: the newest first.
    pub(crate) fn embed() -> Result<(), Box<dyn Error>> {
        let dir = |name| env::var_os(name).map(PathBuf::from).ok_or(format!("cargo did not set {name}"));
        let (root, out_dir) = (dir("CARGO_MANIFEST_DIR")?, dir("OUT_DIR")?);
        let prebuilt = super::prebuilt::prebuilt(&root);

        prebuilt.watch();

        let mut table = String::from("[\n");
        for ready in prebuilt.load_or_build(&out_dir)?.into_iter().rev() {
            let text = out_dir.join(ready.file.name());
            fs::write(&text, ready.text)?;
            let (family, arch) = (ready.file.family, ready.file.arch.compute_capability());
            writeln!(table, "    ({family:?}, {arch}, include_str!({text:?})),")?;
        }
        table += "]\n";
        fs::write(out_dir.join("embedded.rs"), table)?;
        Ok(())
    }
}
