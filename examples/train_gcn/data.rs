//! A dataset in three files of a folder: `NAME_graph.mtx`, `NAME_features.mtx`, each maybe compressed, and `NAME_labels.csv`, maybe as `.xz`.

use std::{error::Error, fs, io::Read, path::Path};

use warpsparse::{CooMatrix, CsrMatrix};

pub(crate) struct Data {
    /// `S = D^-1/2 (A + I) D^-1/2`, with `D` the row sums of `A + I`.
    pub(crate) graph: CsrMatrix<f32>,
    /// A row for each vertex, whose sum is 1.
    pub(crate) features: CsrMatrix<f32>,
    /// Those for training, validation and test: of each vertex, or none.
    pub(crate) labels: [Vec<Option<u32>>; 3],
    pub(crate) classes: usize,
}

/// Reads the dataset in a folder, whatever its name is.
pub(crate) fn read(folder: &Path) -> Result<Data, Box<dyn Error>> {
    let names: Vec<_> = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?.collect();
    let path = |part: &str| {
        let mut paths = names.iter().flatten().map(fs::DirEntry::path).filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().contains(part)) && path.is_file()
        });
        match (paths.next(), paths.next()) {
            (Some(path), None) => Ok(path),
            _ => Err(format!("{}: not exactly one file *{part}*", folder.display())),
        }
    };
    let graph = normalised(&CsrMatrix::read_matrix_market(path("_graph.mtx")?)?)?;
    let features: CsrMatrix<f32> = CsrMatrix::read_matrix_market(path("_features.mtx")?)?;
    let sum = |i: usize| features.row(i).1.iter().sum::<f32>();
    let values = features.triplets().map(|(i, _, value)| value / sum(i)).collect();
    let (n, columns) = (features.nrows(), features.ncols());
    let (offsets, indices, _) = features.into_csr_data();
    let features = CsrMatrix::try_from_csr_data(n, columns, offsets, indices, values)?;
    let labels = labels(&path("_labels.csv")?, n)?;
    if graph.nrows() != n {
        return Err(format!("a graph of {} vertices, and features of {n}", graph.nrows()).into());
    }
    let classes = labels.iter().flatten().flatten().max().map_or(0, |&label| label as usize + 1);
    Ok(Data { graph, features, labels, classes })
}

/// `S` of a symmetric graph, whatever its values are.
pub(crate) fn normalised(a: &CsrMatrix<f32>) -> Result<CsrMatrix<f32>, Box<dyn Error>> {
    let n = a.nrows();
    let mut with_loops = CooMatrix::<f32>::new(n, a.ncols())?;
    for (i, j, _) in a.triplets().filter(|(i, j, _)| i != j).chain((0..n).map(|i| (i, i, 1.0))) {
        with_loops.push(i, j, 1.0)?;
    }
    let pattern = CsrMatrix::<f32>::try_from(&with_loops)?.canonical();
    if pattern.transpose()?.col_indices() != pattern.col_indices() {
        return Err("the graph is not symmetric".into());
    }
    let degree = |i: usize| pattern.row_range(i).len() as f32;
    let values = pattern.triplets().map(|(i, j, _)| (degree(i) * degree(j)).sqrt().recip()).collect();
    let (offsets, columns, _) = pattern.into_csr_data();
    Ok(CsrMatrix::try_from_csr_data(n, n, offsets, columns, values)?)
}

/// Lines `vertex,label,split` after the first, with `train`, `val`, `test` or something else for no split.
fn labels(path: &Path, n: usize) -> Result<[Vec<Option<u32>>; 3], Box<dyn Error>> {
    let (mut text, file) = (String::new(), fs::File::open(path)?);
    match path.extension().is_some_and(|extension| extension == "xz") {
        true => lzma_rust2::XzReader::new(file, true).read_to_string(&mut text)?,
        false => (&file).read_to_string(&mut text)?,
    };
    let mut labels = [(); 3].map(|()| vec![None; n]);
    for (number, line) in text.lines().enumerate().skip(1) {
        let wrong = || format!("{}:{}: not a vertex, a label and a split", path.display(), number + 1);
        let fields: Vec<_> = line.trim().split(',').collect();
        let [vertex, label, split] = fields[..] else { return Err(wrong().into()) };
        let vertex = vertex.parse().ok().filter(|&vertex: &usize| vertex < n).ok_or_else(wrong)?;
        if let Some(split) = ["train", "val", "test"].iter().position(|&name| name == split) {
            labels[split][vertex] = Some(label.parse().map_err(|_| wrong())?);
        }
    }
    Ok(labels)
}
