//! The commands that write files, `convert` and `spy`, as a user runs them.

use std::{
    fs::{self, File},
    io::BufReader,
    path::PathBuf,
    process::Output,
};

use assert_cmd::Command;
use png::{Decoder, Transformations};
use serde_json::Value;
use warpsparse::{CsrMatrix, Scalar, io::MatrixSource};

fn warpsparse(arguments: &[&str]) -> Output {
    Command::cargo_bin("warpsparse").unwrap().args(arguments).output().unwrap()
}

/// Runs the command and returns what it printed.
#[track_caller]
fn done(arguments: &[&str]) -> String {
    let output = warpsparse(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Asserts that the command fails so, with this text among what it says, and prints no result.
#[track_caller]
fn refused(arguments: &[&str], status: i32, text: &str) {
    let output = warpsparse(arguments);
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(status) && problem.contains(text), "{:?}: {problem}", output.status);
    assert!(output.stdout.is_empty());
}

fn data(name: &str) -> String {
    format!("{}/../tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A path for a file that a test writes; no such file is there.
fn scratch(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_file(&path);
    path.to_str().unwrap().to_owned()
}

fn load<T: Scalar>(source: &str) -> CsrMatrix<T> {
    source.parse::<MatrixSource>().unwrap().load().unwrap()
}

/// A Matrix Market file of ones at these places, counted from 1.
fn pattern(name: &str, nrows: usize, ncols: usize, places: &[(usize, usize)]) -> String {
    let path = scratch(name);
    let size = format!("{nrows} {ncols} {}", places.len());
    let lines: String = places.iter().map(|(row, column)| format!("{row} {column}\n")).collect();
    fs::write(&path, format!("%%MatrixMarket matrix coordinate pattern general\n{size}\n{lines}")).unwrap();
    path
}

#[test]
fn convert_writes_what_it_reads() {
    let (plain, gzipped) = (scratch("uniform.mtx"), scratch("uniform.mtx.gz"));
    assert_eq!(done(&["convert", "gen:uniform:200:7:300", &plain]), "");
    let original = load::<f64>("gen:uniform:200:7:300");
    assert_eq!((original.nrows(), original.ncols(), original.nnz()), (200, 300, 1400));
    assert_eq!(load::<f64>(&plain), original);

    let report: Value = serde_json::from_str(&done(&["convert", &plain, &gzipped, "--json"])).unwrap();
    assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.convert".into(), &1.into()));
    assert_eq!((&report["source"], &report["out"]), (&plain.as_str().into(), &gzipped.as_str().into()));
    assert_eq!(["rows", "columns", "entries"].map(|key| report[key].as_u64().unwrap()), [200, 300, 1400]);
    assert_eq!((&report["dtype"], report["bytes"].as_u64()), (&"f64".into(), Some(size(&gzipped))));
    assert!(size(&gzipped) < size(&plain));
    assert_eq!(load::<f64>(&gzipped), original);

    let single = scratch("uniform32.mtx");
    done(&["convert", &plain, &single, "--dtype", "f32"]);
    assert_eq!(load::<f32>(&single), load::<f32>(&plain));
    assert!(size(&single) < size(&plain), "of an f32, fewer digits");

    let empty = scratch("empty.mtx");
    done(&["convert", "gen:poisson2d:0", &empty]);
    assert_eq!(fs::read_to_string(&empty).unwrap(), "%%MatrixMarket matrix coordinate real general\n0 0 0\n");
}

fn size(path: &str) -> u64 {
    fs::metadata(path).unwrap().len()
}

#[test]
fn convert_overwrites_by_force_alone() {
    let path = scratch("present.mtx");
    fs::write(&path, "before").unwrap();
    refused(&["convert", "gen:poisson2d:3", &path], 1, "present.mtx: the file is there already; --force overwrites it");
    // What fails leaves the file alone.
    refused(&["convert", "no/such/file.mtx", &path, "--force"], 1, "no/such/file.mtx: ");
    assert_eq!(fs::read_to_string(&path).unwrap(), "before");
    done(&["convert", "gen:poisson2d:3", &path, "--force"]);
    assert_eq!(load::<f64>(&path), load::<f64>("gen:poisson2d:3"));
    // Even from itself.
    done(&["convert", &path, &path, "--force"]);
    assert_eq!(load::<f64>(&path), load::<f64>("gen:poisson2d:3"));
}

#[test]
fn convert_refuses_other_endings_and_folders_that_are_not_there() {
    for name in ["a.txt", "a.gz", "a.mtx.bz2", "mtx", "a.MTX"] {
        refused(&["convert", "gen:poisson2d:3", name], 2, "the file's name ends in .mtx or .mtx.gz");
    }
    refused(&["convert", "gen:poisson2d:3"], 2, "<OUT>");
    refused(&["convert", "gen:poisson2d:3", "no/such/a.mtx"], 1, "error: no/such/a.mtx: ");
}

const PAPER: [u8; 3] = [255, 255, 255];
const FRAME: [u8; 3] = [27, 31, 36];
const LIGHTEST: [u8; 3] = [125, 175, 235];
const DARKEST: [u8; 3] = [8, 28, 84];
/// Where the matrix begins, right of the frame and beneath it.
const ORIGIN: usize = 16;

/// The decoded picture: its width, and the colour of each pixel.
struct Pixels(usize, Vec<[u8; 3]>);

impl Pixels {
    fn read(path: &str) -> Self {
        let mut decoder = Decoder::new(BufReader::new(File::open(path).unwrap()));
        decoder.set_transformations(Transformations::EXPAND);
        let mut reader = decoder.read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        assert_eq!(bytes.len(), info.width as usize * info.height as usize * 3);
        Self(info.width as usize, bytes.as_chunks().0.to_vec())
    }

    /// Counted from the matrix's corner; -1 is the frame.
    fn at(&self, row: isize, column: isize) -> [u8; 3] {
        self.1[ORIGIN.strict_add_signed(row) * self.0 + ORIGIN.strict_add_signed(column)]
    }

    /// Asserts that the frame has `height` x `width` pixels between its lines.
    #[track_caller]
    fn framed(&self, height: isize, width: isize) {
        for (row, column) in [(-1, -1), (-1, width), (height, -1), (height, width), (height / 2, -1), (-1, width / 2)] {
            assert_eq!(self.at(row, column), FRAME, "row {row}, column {column}");
        }
        for (row, column) in [(-2, 0), (0, -2), (height + 1, 0), (0, width + 1)] {
            assert_eq!(self.at(row, column), PAPER, "row {row}, column {column}");
        }
    }

    /// Text is drawn somewhere below this row.
    fn has_text_below(&self, row: usize) -> bool {
        self.1[(ORIGIN + row + 2) * self.0..].iter().filter(|&&colour| colour == FRAME).count() > 500
    }
}

fn spy(matrix: &str, name: &str, size: &str) -> Pixels {
    let out = scratch(name);
    assert_eq!(done(&["spy", matrix, "--out", &out, "--size", size]), "");
    Pixels::read(&out)
}

#[test]
fn entries_of_a_small_matrix_are_squares() {
    let places = [(1, 1), (1, 2), (2, 3), (3, 4)];
    let pixels = spy(&pattern("small.mtx", 3, 4, &places), "small.png", "120");
    pixels.framed(90, 120);
    for row in 0..90 {
        for column in 0..120 {
            let place = (row / 30 + 1, column / 30 + 1);
            let is_gap = row % 30 == 29 || column % 30 == 29;
            let expected =
                if !is_gap && places.contains(&(place.0 as usize, place.1 as usize)) { DARKEST } else { PAPER };
            assert_eq!(pixels.at(row, column), expected, "row {row}, column {column}");
        }
    }
    assert!(pixels.has_text_below(90));
}

#[test]
fn a_single_entry_is_seen_and_many_are_darker() {
    // In bins of 2 x 2 positions: a full one, a single entry in the last.
    let places = [(3, 5), (3, 6), (4, 5), (4, 6), (32, 32)];
    let pixels = spy(&pattern("binned.mtx", 32, 32, &places), "binned.png", "16");
    pixels.framed(16, 16);
    for row in 0..16 {
        for column in 0..16 {
            let expected = match (row, column) {
                (1, 2) => DARKEST,
                (15, 15) => LIGHTEST,
                _ => PAPER,
            };
            assert_eq!(pixels.at(row, column), expected, "row {row}, column {column}");
        }
    }
}

#[test]
fn matrices_without_rows_or_with_one_are_drawn() {
    let pixels = spy("gen:poisson2d:0", "nothing.png", "80");
    pixels.framed(0, 0);
    assert!(pixels.has_text_below(0));
    spy(&pattern("flat.mtx", 0, 40, &[]), "flat.png", "80").framed(0, 80);
    spy(&pattern("narrow.mtx", 40, 0, &[]), "narrow.png", "80").framed(80, 0);

    let row = spy(&pattern("row.mtx", 1, 40, &[(1, 1), (1, 8), (1, 40)]), "row.png", "80");
    // An eighth as high as it may be wide.
    row.framed(10, 80);
    for column in 0..80 {
        let expected = if [0, 7, 39].contains(&(column / 2)) { DARKEST } else { PAPER };
        assert_eq!(row.at(4, column), expected, "column {column}");
    }
}

/// The pixels that an SVG's paths fill, as a picture of the size that it says it has.
fn rasterised(svg: &str) -> Pixels {
    let attribute = |element: &str, name: &str| {
        let value = element.split_once(&format!(" {name}=\"")).unwrap().1;
        value.split('"').next().unwrap().to_owned()
    };
    let [width, height] = ["width", "height"].map(|name| attribute(svg, name).parse::<usize>().unwrap());
    let mut pixels = vec![PAPER; width * height];
    for path in svg.split("<path").skip(1) {
        let hex = attribute(path, "fill");
        let colour = [1, 3, 5].map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap());
        for rectangle in attribute(path, "d").split('M').skip(1) {
            let numbers: Vec<usize> =
                rectangle.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
            let &[x, y, w, h, back] = numbers.as_slice() else { panic!("{rectangle}") };
            assert_eq!((rectangle, back), (format!("{x} {y}h{w}v{h}h-{w}z").as_str(), w));
            (y..y + h).for_each(|row| pixels[row * width + x..][..w].fill(colour));
        }
    }
    Pixels(width, pixels)
}

#[test]
fn svg_and_png_are_the_same_picture() {
    let (svg, png) = (scratch("same.svg"), scratch("same.png"));
    for matrix in [data("bcsstk16.mtx.xz").as_str(), "gen:poisson2d:5", "gen:uniform:50:3:2000"] {
        for out in [&svg, &png] {
            done(&["spy", matrix, "--out", out, "--size", "300", "--dtype", "f64"]);
        }
        let svg = fs::read_to_string(&svg).unwrap();
        assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"") && svg.ends_with("</svg>"));
        let (svg, png) = (rasterised(&svg), Pixels::read(&png));
        assert_eq!((svg.0, svg.1.len()), (png.0, png.1.len()));
        // What the paths leave white, text may cover.
        let differing = svg.1.iter().zip(&png.1).filter(|(svg, png)| svg != png && (**svg, **png) != (PAPER, FRAME));
        assert_eq!(differing.count(), 0, "{matrix}");
    }
}

#[test]
fn the_figures_stand_beneath() {
    let out = scratch("figures.svg");
    done(&["spy", &data("bcsstk16.mtx.xz"), "--out", &out, "--size", "300"]);
    let svg = fs::read_to_string(&out).unwrap();
    let matrix = load::<f32>(&data("bcsstk16.mtx.xz"));
    let structure = matrix.structure().to_string();
    assert!(structure.starts_with("4884 x 4884, 290378 entries"), "{structure}");
    let texts: Vec<&str> = svg.split("</text>").filter_map(|text| text.rsplit('>').next()).collect();
    let expected = structure.split("; ").chain(["a pixel for 17 x 17 positions", "entries per position:"]);
    for line in expected {
        assert!(texts.contains(&line), "no `{line}` in {texts:?}");
    }
    // From one entry in 17 x 17 positions to the densest bin; of the last bins, 5 rows and columns are left.
    let mut counts = vec![[0.0f64; 288]; 288];
    for (row, column, _) in matrix.triplets() {
        let side = |place| if place / 17 == 287 { 5.0 } else { 17.0 };
        counts[row / 17][column / 17] += 1.0 / (side(row) * side(column));
    }
    let most = counts.as_flattened().iter().copied().fold(0.0, f64::max);
    assert_eq!(texts[texts.len() - 3..], ["0.0035", &format!("{most:.2}"), ""]);
}

#[test]
fn svg_stays_small_and_its_text_is_escaped() {
    let out = scratch("dense.svg");
    done(&["spy", "gen:uniform:2000:300", "--out", &out, "--size", "2000"]);
    assert!((500_000..2_000_000).contains(&size(&out)), "{}", size(&out));

    let matrix = pattern("a<b&c.mtx", 2, 2, &[(1, 2)]);
    done(&["spy", &matrix, "--out", &out]);
    let svg = fs::read_to_string(&out).unwrap();
    assert!(svg.contains("a&lt;b&amp;c.mtx</text>") && svg.contains(">2 x 2, 1 entries, 0 to 1 a row"), "{svg}");
}

#[test]
fn spy_says_what_it_cannot_do() {
    let out = scratch("refused.png");
    refused(&["spy", "no/such/file.mtx", "--out", &out], 1, "no/such/file.mtx: ");
    for name in ["a.jpg", "png", "a.svgz"] {
        refused(&["spy", "gen:poisson2d:3", "--out", name], 2, "the picture's name ends in .png or .svg");
    }
    refused(&["spy", "gen:poisson2d:3"], 2, "--out");
    for size in ["0", "15", "2049", "x"] {
        refused(&["spy", "gen:poisson2d:3", "--out", &out, "--size", size], 2, "--size");
    }
    refused(&["spy", "gen:poisson2d:3", "--out", "no/such/a.svg"], 1, "error: no/such/a.svg: ");
    assert!(!PathBuf::from(out).exists());
}
