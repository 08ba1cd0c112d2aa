//! Embeds the kernels: the prebuilt PTX where it matches the kernel sources, otherwise PTX built here and now.

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
    use std::{env, error::Error, fmt::Write, fs, fs::File, io::Write as _, path::PathBuf};

    use flate2::{Compression, write::DeflateEncoder};

    /// Writes `embedded.rs`, the table that host/ptx.rs includes, and the compressed modules, a tenth of the size.
    pub(crate) fn embed() -> Result<(), Box<dyn Error>> {
        let dir = |name| env::var_os(name).map(PathBuf::from).ok_or(format!("cargo did not set {name}"));
        let (root, out_dir) = (dir("CARGO_MANIFEST_DIR")?, dir("OUT_DIR")?);
        let prebuilt = super::prebuilt::prebuilt(&root);

        for watched in prebuilt.source_dirs().chain([prebuilt.dir().to_owned()]) {
            println!("cargo::rerun-if-changed={}", watched.display());
        }
        for variable in cuda_builder::VARIABLES {
            println!("cargo::rerun-if-env-changed={variable}");
        }

        let mut table = String::from("pub(crate) static EMBEDDED: &[EmbeddedPtx] = &[\n");
        for (file, path) in prebuilt.load_or_build(&out_dir)? {
            let (family, arch) = (&file.family, file.arch.compute_capability());
            let deflated = out_dir.join(format!("{family}.{arch}.deflate"));
            let mut encoder = DeflateEncoder::new(File::create(&deflated)?, Compression::best());
            encoder.write_all(&fs::read(path)?)?;
            encoder.finish()?;
            writeln!(
                table,
                "    EmbeddedPtx {{ family: {family:?}, arch: {arch}, deflated: include_bytes!({deflated:?}) }},"
            )?;
        }
        table += "];\n";
        fs::write(out_dir.join("embedded.rs"), table)?;
        Ok(())
    }
}
