//! `cargo xtask ptx`: builds the prebuilt PTX, or checks that it is what a build here gives.

use std::{io, io::Write, path::Path, time::Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use cuda_builder::{Arch, FileRecord, KernelToolchain, Prebuilt, PtxFile};

use crate::{
    kept::{Kept, kept},
    only::only,
};

/// Build the prebuilt PTX that no longer matches its sources, or all of what `--family` and `--arch` select.
#[derive(Args, Default)]
pub(crate) struct Options {
    /// Write nothing: build everything selected and fail where a checked-in file differs.
    #[arg(long)]
    check: bool,
    /// Only this kernel family, stale or not.
    #[arg(long)]
    family: Option<String>,
    /// Only this architecture, such as sm_80, stale or not.
    #[arg(long)]
    arch: Option<Arch>,
    /// Every file, stale or not.
    #[arg(long, conflicts_with_all = ["family", "arch", "check"])]
    all: bool,
    /// Print the PTX of a kernel family for an architecture, such as gemm_tiles.sm_80, or of one entry of it, such as
    /// spmv_csr_vector_f32_t8.sm_80; without an architecture, for the newest.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["family", "arch", "check", "all"])]
    show: Option<String>,
}

impl Options {
    fn selects(&self, file: &PtxFile) -> bool {
        self.family.as_ref().is_none_or(|family| *family == file.family)
            && self.arch.is_none_or(|arch| arch == file.arch)
    }

    fn is_explicit(&self) -> bool {
        self.all || self.family.is_some() || self.arch.is_some()
    }
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let kept = kept(root);
    if let Some(name) = &options.show {
        return match io::stdout().write_all(shown(&kept, name)?.as_bytes()) {
            // Whoever reads it has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => Ok(written?),
        };
    }
    let files = || kept.iter().flat_map(|kept| kept.prebuilt.files());
    if !files().any(|file| options.selects(&file)) {
        bail!("no such file: there are {}", names(&files().collect::<Vec<_>>()));
    }
    kept.iter().try_for_each(|Kept { prebuilt, .. }| {
        let selected: Vec<_> = prebuilt.files().into_iter().filter(|file| options.selects(file)).collect();
        match options.check {
            _ if selected.is_empty() => Ok(()),
            true => check(prebuilt, &selected),
            false => refresh(prebuilt, selected, options.is_explicit()),
        }
    })
}

/// The PTX of a family or of one entry, as [`Options::show`] names it.
fn shown(kept: &[Kept], name: &str) -> Result<String> {
    let (name, arch) = match name.trim_end_matches(".ptx").split_once('.') {
        Some((name, arch)) => (name, Some(arch.parse::<Arch>()?)),
        None => (name, None),
    };
    let mut families =
        kept.iter().flat_map(|Kept { prebuilt, families, .. }| families.iter().map(move |it| (prebuilt, it)));
    let named = families.find(|(_, it)| it.name == name || it.entries.iter().any(|entry| entry.name == name));
    let (prebuilt, family) = named.with_context(|| format!("no kernel family and no entry is named {name}"))?;
    let of_family: Vec<_> = prebuilt.files().into_iter().filter(|file| file.family == family.name).collect();
    // The oldest architecture comes first.
    let file = of_family.iter().rfind(|file| arch.is_none_or(|arch| arch == file.arch));
    let text = prebuilt.text(file.with_context(|| format!("no such file: there are {}", names(&of_family)))?)?;
    Ok(if name == family.name { text } else { only(&text, name) })
}

fn refresh(prebuilt: &Prebuilt, selected: Vec<PtxFile>, even_fresh: bool) -> Result<()> {
    let files = if even_fresh {
        selected
    } else {
        let stale = prebuilt.stale()?;
        stale.iter().for_each(|stale| println!("{stale}"));
        stale.into_iter().map(|stale| stale.file).collect()
    };
    let started = Instant::now();
    if files.is_empty() {
        println!("{} matches the kernel sources", prebuilt.dir().display());
        // Nothing to build: this only drops files of families that are gone.
        if prebuilt.verify()?.is_empty() {
            return Ok(());
        }
    }
    let toolchain = KernelToolchain::find()?;
    prebuilt.refresh(&files, &toolchain)?;
    println!("built {} with {} in {:.1} s", names(&files), toolchain.version, started.elapsed().as_secs_f32());
    Ok(())
}

fn check(prebuilt: &Prebuilt, selected: &[PtxFile]) -> Result<()> {
    let mut problems = prebuilt.verify()?;
    let toolchain = KernelToolchain::find()?;
    let manifest = prebuilt.manifest()?;
    for (file, (text, record)) in prebuilt.build(selected, &toolchain)? {
        let name = file.name();
        let Some(recorded) = manifest.files.get(&name) else {
            continue;
        };
        let difference = if record.rustc == recorded.rustc {
            difference_in_text(&prebuilt.text(&file)?, &text)
        } else {
            println!("{name}: made by {}, so only entries and targets are compared", recorded.rustc);
            difference_in_facts(recorded, &record)
        };
        match difference {
            Some(difference) => problems.push(format!("{name}: {difference}")),
            None => println!("{name}: as built by {}", record.rustc),
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    bail!(
        "{} is not what the sources give:\n  {}\nrun `cargo xtask kernels` and commit the result",
        prebuilt.dir().display(),
        problems.join("\n  ")
    )
}

fn difference_in_text(old: &str, new: &str) -> Option<String> {
    if old == new {
        return None;
    }
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let differing = old.iter().zip(&new).filter(|(old, new)| old != new).count() + old.len().abs_diff(new.len());
    let first = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let line = |lines: &[&str]| lines.get(first).map_or("<end of file>", |line| line.trim()).to_owned();
    Some(format!(
        "{} lines here, {} rebuilt, about {differing} differ, from line {} on: `{}`, rebuilt `{}`",
        old.len(),
        new.len(),
        first + 1,
        line(&old),
        line(&new)
    ))
}

fn difference_in_facts(recorded: &FileRecord, rebuilt: &FileRecord) -> Option<String> {
    let (old, new) = (&recorded.info, &rebuilt.info);
    let mut differences = Vec::new();
    if old.target != new.target {
        differences.push(format!("target {}, rebuilt {}", old.target, new.target));
    }
    for name in old.entries.keys().chain(new.entries.keys().filter(|name| !old.entries.contains_key(*name))) {
        let bytes =
            |entries: Option<&u32>| entries.map_or("missing".to_owned(), |bytes| format!("{bytes} argument bytes"));
        let (here, there) = (old.entries.get(name), new.entries.get(name));
        if here != there {
            differences.push(format!("{name}: {}, rebuilt {}", bytes(here), bytes(there)));
        }
    }
    (!differences.is_empty()).then(|| differences.join("; "))
}

fn names(files: &[PtxFile]) -> String {
    if files.is_empty() { "nothing".to_owned() } else { files.iter().map(PtxFile::name).collect::<Vec<_>>().join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_and_entries_are_shown() {
        let kept = kept(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
        let shown = |name| shown(&kept, name).map_err(|error| error.to_string());
        let family = shown("spmv_csr_vector").unwrap();
        assert!(family.contains(".target sm_90\n"));
        assert_eq!(shown("spmv_csr_vector.sm_90.ptx").unwrap(), family);
        let entry = shown("spmv_csr_vector_f32_t8.sm_80").unwrap();
        assert!(entry.contains(".target sm_80\n") && entry.contains(".entry spmv_csr_vector_f32_t8("));
        assert_eq!(entry.matches(".entry ").count(), 1);
        assert!(shown("spmv.sm_80").unwrap_err().contains("named spmv"));
        assert!(shown("spmv_csr_vector.sm_86").unwrap_err().contains("spmv_csr_vector.sm_90.ptx"));
        assert!(shown("sgemm_ladder_naive").unwrap().contains(".target sm_80\n"));
    }
}
