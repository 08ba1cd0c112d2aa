//! Embeds the kernels: the prebuilt PTX where it matches the kernel sources, with its machine code, otherwise PTX built
//! here and now.

use std::process::ExitCode;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(shared_instances)");
    println!("cargo::rerun-if-env-changed=WARPSPARSE_INSTANCES");
    // The compiler shares instances of generic functions among crates at these levels: see host/instances.rs.
    let unwanted = std::env::var("WARPSPARSE_INSTANCES").is_ok_and(|value| value == "0");
    if !unwanted && std::env::var("OPT_LEVEL").is_ok_and(|level| ["0", "1", "s", "z"].contains(&&*level)) {
        println!("cargo::rustc-cfg=shared_instances");
    }
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
        path::{Path, PathBuf},
    };

    use cuda_builder::Arch;

    /// Writes what host/ptx.rs includes: `embedded.rs`, the table, and `text.rs`, which reads texts. The files are compressed, a tenth of the size or less.
    pub(crate) fn embed() -> Result<(), Box<dyn Error>> {
        let dir = |name| env::var_os(name).map(PathBuf::from).ok_or(format!("cargo did not set {name}"));
        let (root, out_dir) = (dir("CARGO_MANIFEST_DIR")?, dir("OUT_DIR")?);
        let prebuilt = super::prebuilt::prebuilt(&root);

        prebuilt.watch();

        let mut table = String::from("pub(crate) static EMBEDDED: &[EmbeddedModule] = &[\n");
        for ready in prebuilt.load_or_build(&out_dir)? {
            let (family, arch) = (&ready.file.family, ready.file.arch.compute_capability());
            let only_there = ready.file.arch == Arch::Sm90a;
            let ptx = include(&ready.ptx);
            let cubin = ready.cubin.map_or("None".to_owned(), |cubin| format!("Some({})", include(&cubin)));
            writeln!(
                table,
                "    EmbeddedModule {{ family: {family:?}, arch: {arch}, only_there: {only_there}, ptx: {ptx}, cubin: {cubin} }},"
            )?;
        }
        table += "];\n";
        fs::write(out_dir.join("embedded.rs"), table)?;
        fs::write(out_dir.join("text.rs"), cuda_builder::TEXT_SOURCE)?;
        Ok(())
    }

    /// The expression that embeds a file.
    fn include(file: &Path) -> String {
        format!("include_bytes!({file:?})")
    }
}
