//! Which matrices are measured when none is named.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use warpsparse::{Result, io::MatrixSource};

/// Sets of matrices with a name.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Suite {
    /// Stencils, meshes, random and power-law graphs, and matrices from practice.
    Default,
    /// Of these the larger ones, and the graphs.
    Dense,
    /// Matrices that are squared: stencils, power-law graphs, and the files.
    Squares,
    /// About 20 million entries each: a stencil, a random matrix, a power-law graph.
    Large,
    /// A cubic grid, for a product of three matrices.
    Grid,
    /// Systems whose incomplete factors are solved with: stencils, solids, and a graph's Laplacian.
    Triangles,
    /// Matrices that take fewer bytes than in CSR: with columns close together, in blocks, with few distinct values.
    Bytes,
    /// Systems of diffusion, up to 16.8 million unknowns: isotropic, anisotropic, with jumps.
    Diffusion,
}

/// From regular to skewed row lengths, and from matrices that fill a GPU to such that do not.
const GENERATED: &[&str] = &[
    "gen:poisson2d:2048",
    "gen:poisson3d:160",
    "gen:stencil27:100",
    "gen:fem3:200000",
    "gen:uniform:1048576:16",
    "gen:rmat:20:16",
    "gen:rmat:17:8",
    "gen:uniform:4267:472",
];

/// What is squared: products of 26 to 330 million terms.
const SQUARED: &[&str] =
    &["gen:poisson2d:1024", "gen:poisson3d:100", "gen:stencil27:64", "gen:rmat:16:8", "gen:rmat:17:8"];

/// Matrices of about 20 million entries.
const LARGE: &[&str] = &["gen:poisson2d:2048", "gen:uniform:1250000:16", "gen:rmat:20:20"];

/// A grid of points in three dimensions.
const GRID: &[&str] = &["gen:poisson3d:160"];

/// Those whose incomplete factors are solved with.
const TRIANGLES: &[&str] = &["gen:poisson3d:128", "gen:fem3:10000", "gen:poisson2d:1024"];

/// Those with columns close together, or in blocks of 3: three stencils, a band and an elastic body of 1 million rows.
const BYTES: &[&str] =
    &["gen:poisson2d:2048", "gen:poisson3d:160", "gen:stencil27:100", "gen:fem3:200000", "gen:elasticity3d:70"];

/// Diffusion on grids.
const DIFFUSION: &[&str] = &[
    "gen:poisson2d:256",
    "gen:poisson2d:2048",
    "gen:poisson2d:4096",
    "gen:poisson3d:64",
    "gen:poisson3d:100",
    "gen:poisson3d:200",
    "gen:poisson3d:256",
    "gen:stencil27:128",
    "gen:aniso2d:512:0.01",
    "gen:aniso2d:512:0.001",
    "gen:jump3d:80:1e4",
    "gen:jump3d:80:1e6",
];

/// Files of the data folder: the repository has them, the command does not.
const FILES: &[&str] = &[
    "bcsstk16.mtx.xz",
    "copter2.mtx.xz",
    "4elt.mtx.xz",
    "dwt_992.mtx.xz",
    "NotreDame_www.mtx.xz",
    "cora.mtx.gz",
    "pubmed.mtx.xz",
];

/// Those of them without weights: what graph networks work on.
const GRAPHS: &[&str] = &["cora.mtx.gz", "pubmed.mtx.xz", "NotreDame_www.mtx.xz"];

/// Where the files lie in the repository, and beside the command in a bundle.
const DATA_FOLDERS: &[&str] = &["tests/data", "data"];

impl Suite {
    /// The matrices, the files among them taken from the folder `data`.
    pub(crate) fn sources(self, data: Option<&Path>) -> Result<Vec<MatrixSource>> {
        let (generated, files) = match self {
            Self::Default => (GENERATED, FILES),
            Self::Dense => (GENERATED, GRAPHS),
            Self::Squares => (SQUARED, FILES),
            Self::Large => (LARGE, &[][..]),
            Self::Triangles => (TRIANGLES, &["bcsstk16.mtx.xz", "graphlap:copter2.mtx.xz"][..]),
            Self::Grid => (GRID, &[][..]),
            Self::Bytes => (BYTES, GRAPHS),
            Self::Diffusion => (DIFFUSION, &[][..]),
        };
        let found = || DATA_FOLDERS.iter().map(Path::new).find(|folder| folder.is_dir());
        let data = data.or_else(found).unwrap_or(Path::new(DATA_FOLDERS[0]));
        let file = |name: &&str| match name.strip_prefix("graphlap:") {
            Some(graph) => Ok(MatrixSource::Laplacian(data.join(graph))),
            None => Ok(MatrixSource::File(data.join(name))),
        };
        generated.iter().map(|text| text.parse()).chain(files.iter().map(file)).collect()
    }
}

/// A short name for the matrix, the same wherever its file lies.
pub(crate) fn name(source: &MatrixSource) -> String {
    let of_file = |path: &PathBuf| {
        let file = path.file_name().map_or_else(|| path.to_string_lossy(), |name| name.to_string_lossy());
        file.trim_end_matches(".gz").trim_end_matches(".xz").trim_end_matches(".mtx").to_owned()
    };
    match source {
        MatrixSource::File(path) => of_file(path),
        MatrixSource::Laplacian(path) => format!("graphlap:{}", of_file(path)),
        MatrixSource::Generator(generator) => generator.to_string().trim_start_matches("gen:").to_owned(),
    }
}

/// The path of a file that is not there.
pub(crate) fn missing(source: &MatrixSource) -> Option<&PathBuf> {
    match source {
        MatrixSource::File(path) | MatrixSource::Laplacian(path) if !path.exists() => Some(path),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suite_is_valid_and_its_names_differ() {
        let sources = Suite::Default.sources(Some(Path::new("elsewhere"))).unwrap();
        let names: std::collections::HashSet<String> = sources.iter().map(name).collect();
        assert_eq!(names.len(), GENERATED.len() + FILES.len());
        assert!(names.contains("rmat:20:16") && names.contains("copter2") && names.contains("NotreDame_www"));
        assert!(GRAPHS.iter().all(|graph| FILES.contains(graph)));
        assert_eq!(Suite::Dense.sources(None).unwrap().len(), GENERATED.len() + GRAPHS.len());
        assert_eq!(Suite::Bytes.sources(None).unwrap().len(), BYTES.len() + GRAPHS.len());
        assert_eq!(missing(sources.last().unwrap()).unwrap(), Path::new("elsewhere/pubmed.mtx.xz"));
    }
}
