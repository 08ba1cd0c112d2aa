//! The course of a training, and the hidden layer, as SVG.

use std::error::Error;

use plotters::prelude::*;

/// Draws the losses of training (blue) and validation (red), and the share of right answers in validation (black), by epoch.
pub(crate) fn curve(path: &str, curve: &[[f64; 3]]) -> Result<(), Box<dyn Error>> {
    let area = SVGBackend::new(path, (640, 420)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area);
    chart.caption("Loss of training (blue) and validation (red), validated accuracy (black)", ("sans-serif", 16));
    chart.margin(20).x_label_area_size(44).y_label_area_size(60);
    let top = curve.iter().flatten().copied().fold(1.0, f64::max);
    let mut chart = chart.build_cartesian_2d(0.0..curve.len() as f64, 0.0..1.05 * top)?;
    chart.configure_mesh().light_line_style(TRANSPARENT).x_desc("epoch").draw()?;
    for (k, colour) in [BLUE, RED, BLACK].into_iter().enumerate() {
        let points = curve.iter().zip(1..).map(|(values, epoch)| (f64::from(epoch), values[k]));
        chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
    }
    area.present().map_err(|error| format!("{path}: {error}"))?;
    Ok(())
}

/// Draws rows of `width` numbers as points: their two principal components, coloured by label.
pub(crate) fn embedding(path: &str, rows: &[f64], width: usize, labels: &[Option<u32>]) -> Result<(), Box<dyn Error>> {
    let points = principal_components(rows, width);
    let area = SVGBackend::new(path, (640, 640)).into_drawing_area();
    area.fill(&WHITE)?;
    let range = |k: usize| {
        let of = points.iter().map(|point| point[k]);
        of.clone().fold(f64::INFINITY, f64::min)..of.fold(f64::NEG_INFINITY, f64::max)
    };
    let mut chart = ChartBuilder::on(&area);
    chart.margin(20).caption("Hidden layer by class: two principal components", ("sans-serif", 16));
    let mut chart = chart.build_cartesian_2d(range(0), range(1))?;
    let of_class = points.iter().zip(labels).filter_map(|(point, label)| label.map(|label| (point, label)));
    chart.draw_series(
        of_class.map(|(point, label)| Circle::new((point[0], point[1]), 2, Palette99::pick(label as usize).filled())),
    )?;
    area.present().map_err(|error| format!("{path}: {error}"))?;
    Ok(())
}

/// The coordinates of rows, less their mean, along the two directions in which they vary most, by power iteration.
fn principal_components(rows: &[f64], width: usize) -> Vec<[f64; 2]> {
    let rows: Vec<&[f64]> = rows.chunks(width).collect();
    let mean: Vec<f64> = (0..width).map(|j| rows.iter().map(|row| row[j]).sum::<f64>() / rows.len() as f64).collect();
    let dot = |row: &[f64], v: &[f64]| row.iter().zip(&mean).zip(v).map(|((x, mean), v)| (x - mean) * v).sum::<f64>();
    let mut directions: Vec<Vec<f64>> = vec![];
    for first in 0..2 {
        let mut v: Vec<f64> = (0..width).map(|j| 1.0 + ((j + first) % 3) as f64).collect();
        for _ in 0..100 {
            let mut next = vec![0.0; width];
            for row in &rows {
                let along = dot(row, &v);
                (0..width).for_each(|j| next[j] += along * (row[j] - mean[j]));
            }
            for u in &directions {
                let along: f64 = next.iter().zip(u).map(|(x, u)| x * u).sum();
                next.iter_mut().zip(u).for_each(|(x, u)| *x -= along * u);
            }
            let norm = next.iter().map(|x| x * x).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
            v = next.into_iter().map(|x| x / norm).collect();
        }
        directions.push(v);
    }
    rows.iter().map(|row| [dot(row, &directions[0]), dot(row, &directions[1])]).collect()
}
