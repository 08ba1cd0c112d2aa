//! PageRank of a university's web: `cargo run --release --example pagerank [DEVICE] [GRAPH] [PICTURE]`.
//!
//! A surfer follows a random link or, in 15 of 100 steps and where there are none, jumps to any page. A step is a CUDA graph.
#![allow(clippy::print_stdout, reason = "an example prints what it finds")]
use std::{cell::RefCell, env, error::Error};

use plotters::prelude::*;
use warpsparse::{CooMatrix, CsrMatrix, Device, Reduction, io::MatrixSource};

const FOLLOW: f64 = 0.85;

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::from_name(&env::args().nth(1).unwrap_or("auto".into()))?;
    let source = if device.to_string() == "emulated" { "gen:rmat:9:8" } else { "tests/data/NotreDame_www.mtx.xz" };
    let source: MatrixSource = env::args().nth(2).unwrap_or(source.into()).parse()?;
    let links = source.load().map_err(|error| format!("{error}; a random GRAPH: gen:rmat:18:4"))?;
    let n = Some(links.nrows()).filter(|&n| n > 0 && n == links.ncols()).ok_or("GRAPH: a square matrix with rows")?;
    let a = device.upload(&surfer(&links)?)?;
    println!("{source}: {n} pages, {} links, on {}", links.nnz(), device.describe());
    let jump = |(pages, _): (&[u32], _)| if pages.is_empty() { 1.0 } else { 1.0 - FOLLOW };
    let jump = device.upload_vec(&links.rows().map(jump).collect::<Vec<_>>())?; // how probably, from each page
    let (uniform, mut next) = (device.upload_vec(&vec![1.0 / n as f64; n])?, device.zeros(n)?);
    let mut now = device.upload_vec(&vec![1.0 / n as f64; n])?;
    let change = RefCell::new(device.scalar(1.0)?);
    let mut steps = device.record_swapping(&mut now, &mut next, |now, next| {
        a.spmv(1.0, &*now, 0.0, &mut *next)?;
        next.axpy(&jump.dot(&*now)?, &uniform)?;
        now.axpby(1.0, &*next, -1.0)?; // what has changed
        now.reduce_into(Reduction::Norm1, &mut change.borrow_mut())
    })?;
    while change.borrow().get()? > 1e-11 {
        steps.launch(10)?;
    }
    drop(steps); // gives the ranks back
    let rank = now.to_vec()?;
    let residual = difference(&links, &rank);
    println!("by the definition, on the host, the ranks are off by {residual:.1e} in the 1-norm");
    let mut pages: Vec<(f64, usize)> = rank.into_iter().zip(0..).collect();
    pages.sort_by(|a, b| b.0.total_cmp(&a.0));
    pages.iter().take(10).for_each(|(rank, page)| println!("page {page:6}: {rank:.6}"));
    assert!(residual < 1e-10, "the ranks are what the definition says");
    draw(&pages, &env::args().nth(3).unwrap_or("target/pagerank.svg".into()))
}

/// Column j: where links lead the surfer from page j, how probably.
fn surfer(links: &CsrMatrix<f64>) -> warpsparse::Result<CsrMatrix<f64>> {
    let mut steps = CooMatrix::new(links.nrows(), links.nrows())?;
    let probability = |page: usize| FOLLOW / links.row_range(page).len() as f64;
    links.triplets().try_for_each(|(page, target, _)| steps.push(target, page, probability(page)))?;
    CsrMatrix::try_from(&steps)
}

/// The 1-norm of the ranks minus `FOLLOW * (what links bring + share of pages without links) + (1 - FOLLOW) / n`.
fn difference(links: &CsrMatrix<f64>, rank: &[f64]) -> f64 {
    let pages = || links.rows().map(|(targets, _)| targets).zip(rank);
    let endings: f64 = pages().filter(|(targets, _)| targets.is_empty()).map(|(_, rank)| rank).sum();
    let mut expected = vec![(FOLLOW * endings + 1.0 - FOLLOW) / rank.len() as f64; rank.len()];
    pages().for_each(|(to, rank)| to.iter().for_each(|&i| expected[i as usize] += FOLLOW * rank / to.len() as f64));
    rank.iter().zip(expected).map(|(rank, expected)| (rank - expected).abs()).sum()
}

/// The ranks by place as SVG.
fn draw(pages: &[(f64, usize)], path: &str) -> Result<(), Box<dyn Error>> {
    let area = SVGBackend::new(path, (640, 420)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area);
    chart.margin(20).x_label_area_size(44).y_label_area_size(72).caption("PageRank by place", ("sans-serif", 18));
    let (x, y) = (1.0..pages.len() as f64, pages[pages.len() - 1].0..pages[0].0);
    let mut chart = chart.build_cartesian_2d(x.log_scale(), y.log_scale())?;
    let mut mesh = chart.configure_mesh();
    mesh.x_desc("place").x_label_formatter(&|x| format!("{x:e}")).light_line_style(TRANSPARENT);
    mesh.y_desc("rank").y_label_formatter(&|y| format!("{y:e}")).draw()?;
    let places = (0..).map(|k| 10f64.powf(k as f64 / 40.0)).take_while(|&place| place <= pages.len() as f64);
    let curve = places.map(|place| (place.floor(), pages[place as usize - 1].0));
    chart.draw_series(LineSeries::new(curve, BLUE.stroke_width(2)))?;
    area.present().map_err(|error| format!("{path}: {error}"))?;
    println!("picture: {path}");
    Ok(())
}
