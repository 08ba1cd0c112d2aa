//! Heat spreads over an insulated square plate: `cargo run --release --example heat [DEVICE] [CELLS] [PICTURE]`.
//!
//! Each step of implicit Euler solves `(I + r L) u_new = u` by conjugate gradients, from the guess `2 u - u_old`.
#![allow(clippy::print_stdout, reason = "an example prints what it finds")]
use std::{env, error::Error, f64::consts::PI, fs::File};

use embedded_graphics::{framebuffer::*, mono_font::*, pixelcolor::*, prelude::*, text::Text};
use warpsparse::{Cg, CsrMatrix, Device, Jacobi, Tolerance, io::generate};

const SNAPSHOTS: [usize; 4] = [0, 10, 35, 100]; // after so many steps
const DT: f64 = 2e-4; // the plate's side and its diffusivity are 1

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::from_name(&env::args().nth(1).unwrap_or("auto".into()))?;
    let cells = if device.to_string() == "emulated" { 20 } else { 256 };
    let n = env::args().nth(2).map_or(Some(cells), |text| text.parse().ok()).filter(|n| (2..10_000).contains(n));
    let n = n.ok_or("CELLS along a side: a number from 2 to 9999")?;
    let a = device.upload(&implicit_euler(n, DT * (n * n) as f64)?)?;
    println!("heat on {n} x {n} cells, on {}", device.describe());
    let centre = |cell: usize| (cell as f64 + 0.5) / n as f64;
    let spot = |i: usize, x: f64, y: f64| (-40.0 * ((centre(i % n) - x).powi(2) + (centre(i / n) - y).powi(2))).exp();
    let start = |i| spot(i, 0.25, 0.3) + 0.8 * spot(i, 0.7, 0.5) + 0.6 * spot(i, 0.35, 0.8);
    let mut plate: Vec<f64> = (0..n * n).map(start).collect();
    // How much a plate has of the slowest wave, cos(pi x), which each step divides by 1 + r lambda.
    let wave = |plate: &[f64]| (0..n * n).map(|i| (PI * centre(i % n)).cos() * plate[i]).sum::<f64>();
    let decay = 1.0 + DT * (n * n) as f64 * (2.0 - 2.0 * (PI / n as f64).cos());
    let (heat, amplitude) = (plate.iter().sum::<f64>(), wave(&plate));

    let (mut u, mut guess) = (device.upload_vec(&plate)?, device.upload_vec(&plate)?);
    let mut cg = Cg::new(&a).preconditioner(Jacobi::new(&a)?).tolerance(Tolerance::relative(1e-11));
    let (mut iterations, mut pictures) = (0, vec![plate]);
    for step in 1..=SNAPSHOTS[3] {
        guess.axpby(2.0, &u, -1.0)?;
        let info = cg.solve(&u, &mut guess)?;
        std::mem::swap(&mut u, &mut guess);
        iterations += info.iterations;
        if SNAPSHOTS.contains(&step) {
            plate = u.to_vec()?;
            let gain = plate.iter().sum::<f64>() / heat - 1.0;
            let off = wave(&plate) / amplitude * decay.powi(step as i32) - 1.0;
            print!("t = {:.3}: {iterations} iterations, residual {:.1e}, ", step as f64 * DT, info.relative_residual);
            println!("heat gained {gain:+.1e}, slowest wave off by {off:+.1e} (both relative)");
            assert!(gain.abs() < 1e-8 && off.abs() < 1e-8, "heat is conserved, and waves decay as they must");
            pictures.push(plate);
        }
    }
    draw(&pictures, n, &env::args().nth(3).unwrap_or("target/heat.png".into()))
}

/// `I + r L`. `L` is the 5-point stencil, with the number of neighbours on the diagonal: nothing leaves the plate.
fn implicit_euler(n: usize, r: f64) -> warpsparse::Result<CsrMatrix<f64>> {
    let (offsets, columns, mut values) = generate::poisson2d(n)?.into_csr_data();
    for i in 0..n * n {
        let row = offsets[i] as usize..offsets[i + 1] as usize;
        let diagonal = 1.0 + r * (row.len() - 1) as f64;
        row.for_each(|k| values[k] = if columns[k] as usize == i { diagonal } else { -r });
    }
    CsrMatrix::try_from_csr_data(n * n, n * n, offsets, columns, values)
}

/// The plates side by side as PNG, and beneath each its time.
fn draw(plates: &[Vec<f64>], n: usize, path: &str) -> Result<(), Box<dyn Error>> {
    let mut paper = Framebuffer::<Gray8, _, raw::LittleEndian, 890, 240, { buffer_size::<Gray8>(890, 240) }>::new();
    paper.data_mut().fill(255); // white; 0 to 254 are temperatures from 0 to 1
    for (k, plate) in plates.iter().enumerate() {
        let place = |x: usize, y: usize| Point::new((10 + 220 * k + x) as i32, (10 + y) as i32);
        let ink = |x: usize, y: usize| Gray8::new((254.0 * plate[(209 - y) * n / 210 * n + x * n / 210]) as u8);
        (0..210 * 210).for_each(|p| paper.set_pixel(place(p % 210, p / 210), ink(p % 210, p / 210)));
        let label = format!("t = {:.3}", SNAPSHOTS[k] as f64 * DT);
        Text::new(&label, place(0, 224), MonoTextStyle::new(&ascii::FONT_9X15, Gray8::BLACK)).draw(&mut paper)?;
    }
    let colour = |i| if i < 255 { colorous::INFERNO.eval_rational(i, 255).as_array() } else { [255; 3] };
    let mut png = png::Encoder::new(File::create(path).map_err(|error| format!("{path}: {error}"))?, 890, 240);
    png.set_color(png::ColorType::Indexed);
    png.set_palette((0..256).flat_map(colour).collect::<Vec<u8>>());
    png.write_header()?.write_image_data(paper.data())?;
    println!("picture: {path}");
    Ok(())
}
