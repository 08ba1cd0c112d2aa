//! `warpsparse spy`: draws the sparsity pattern of a matrix.

mod bitmap;
mod grid;
mod picture;
mod svg;

use std::{fs, path::PathBuf};

use clap::Args;
use measure::{DTypeName, Outcome};
use warpsparse::{CsrMatrix, Scalar, io::MatrixSource};

use self::{
    grid::{Axis, Grid},
    picture::Picture,
};

#[derive(Args)]
pub(crate) struct Options {
    /// A Matrix Market file (.mtx, .mtx.gz, .mtx.xz) or a generator: see `warpsparse spmv --help`.
    matrix: MatrixSource,
    /// The picture: .png or .svg.
    #[arg(long, value_parser = parse_out)]
    out: Out,
    /// The maximum size of the matrix in the picture in either direction, in pixels.
    #[arg(long, default_value_t = 800, value_parser = clap::value_parser!(u16).range(16..=2048))]
    size: u16,
    /// The element type for reading the values: it affects memory use, not the picture.
    #[arg(long, value_enum, default_value = "f32")]
    dtype: DTypeName,
}

/// The format of a picture file.
#[derive(Clone)]
pub(crate) struct Out {
    path: PathBuf,
    format: Format,
}

impl Out {
    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }
}

#[derive(Clone, Copy)]
enum Format {
    Png,
    Svg,
}

pub(crate) fn parse_out(text: &str) -> Result<Out, String> {
    let format = match text {
        _ if text.ends_with(".png") => Format::Png,
        _ if text.ends_with(".svg") => Format::Svg,
        _ => return Err("the picture's name ends in .png or .svg".into()),
    };
    Ok(Out { path: text.into(), format })
}

/// The size in bytes beyond which SVG is slow to show; the bins are made coarser then.
const LARGEST_SVG: usize = 2_000_000;

pub(crate) fn run(options: &Options) -> Outcome {
    match options.dtype {
        DTypeName::F32 => draw::<f32>(options),
        DTypeName::F64 => draw::<f64>(options),
    }
}

fn draw<T: Scalar>(options: &Options) -> Outcome {
    let matrix = measure::load::<T>(&options.matrix)?;
    write_picture(&matrix, &options.matrix.to_string(), options.size, &options.out)
}

/// Draws a matrix in at most `size` pixels in either direction, with a title and the figures of its structure.
pub(crate) fn write_picture<T: Scalar>(matrix: &CsrMatrix<T>, title: &str, size: u16, out: &Out) -> Outcome {
    let Out { path, format } = out;
    let mut axes = Axis::pair(matrix.nrows(), matrix.ncols(), size.into());
    let mut picture = picture(matrix, title, axes);
    let bytes = match format {
        Format::Png => bitmap::encode(&picture)?,
        Format::Svg => loop {
            let text = svg::text(&picture);
            if text.len() <= LARGEST_SVG {
                break text.into_bytes();
            }
            axes = axes.map(Axis::coarser);
            picture = self::picture(matrix, title, axes);
        },
    };
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    eprintln!("{}: {} x {} pixels", path.display(), picture.width, picture.height);
    Ok(())
}

fn picture<T: Scalar>(matrix: &CsrMatrix<T>, title: &str, axes: [Axis; 2]) -> Picture {
    let structure = matrix.structure().to_string();
    let lines: Vec<&str> = std::iter::once(title).chain(structure.split("; ")).collect();
    Picture::new(&Grid::new(matrix, axes), &lines)
}
