//! Embeds the kernels: the prebuilt PTX where it matches the kernel sources, with its machine code, otherwise PTX built
//! here and now.

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
    use std::{
        env,
        error::Error,
        fmt::Write,
        fs,
        fs::File,
        io::Write as _,
        path::{Path, PathBuf},
    };

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

        let mut table = String::from("pub(crate) static EMBEDDED: &[EmbeddedModule] = &[\n");
        for ready in prebuilt.load_or_build(&out_dir)? {
            let (family, arch) = (&ready.file.family, ready.file.arch.compute_capability());
            let ptx = deflated(&ready.ptx, &out_dir.join(format!("{family}.{arch}.ptx.deflate")))?;
            let cubin = match &ready.cubin {
                Some(cubin) => {
                    format!("Some({})", deflated(cubin, &out_dir.join(format!("{family}.{arch}.cubin.deflate")))?)
                }
                None => "None".to_owned(),
            };
            writeln!(table, "    EmbeddedModule {{ family: {family:?}, arch: {arch}, ptx: {ptx}, cubin: {cubin} }},")?;
        }
        table += "];\n";
        fs::write(out_dir.join("embedded.rs"), table)?;
        Ok(())
    }

    /// Compresses a file to `target`; the expression that embeds it.
    fn deflated(file: &Path, target: &Path) -> Result<String, Box<dyn Error>> {
        let mut encoder = DeflateEncoder::new(File::create(target)?, Compression::best());
        encoder.write_all(&fs::read(file)?)?;
        encoder.finish()?;
        Ok(format!("include_bytes!({target:?})"))
    }
}
