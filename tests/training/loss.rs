//! Cross entropy, its gradient, and accuracy.

use warpsparse::{DenseLayout, Device, DeviceVec, Scalar, learning};

use crate::{
    common::{Random, assert_within, sums::epsilon},
    t,
};

/// Rows and classes: around the lanes of a row and the rows of a block.
const SIZES: [(usize, usize); 12] =
    [(0, 3), (3, 0), (1, 1), (1, 7), (2, 2), (3, 8), (31, 9), (32, 7), (33, 17), (100, 3), (5, 64), (2, 1000)];

/// Row-major and column-major, without gaps and with.
fn layouts(rows: usize, classes: usize) -> [DenseLayout; 4] {
    let (by_rows, by_columns) = (DenseLayout::row_major(rows, classes), DenseLayout::column_major(rows, classes));
    [
        by_rows,
        by_columns,
        by_rows.leading_dimension(classes + 3).offset(5),
        by_columns.leading_dimension(rows + 2).offset(1),
    ]
}

/// A matrix in a layout, with NaN around it.
fn framed<T: Scalar>(device: &Device, layout: DenseLayout, elements: &[T], classes: usize) -> DeviceVec<T> {
    let mut vector = device.filled(layout.elements().unwrap() + 3, t::<T>(f64::NAN)).unwrap();
    let source = device.upload_dense((elements.len().checked_div(classes).unwrap_or(0), classes), elements).unwrap();
    if !elements.is_empty() {
        vector.matrix_mut(layout).unwrap().assign(&source).unwrap();
    }
    vector
}

/// A label for about two rows of three.
fn labels(rows: usize, classes: usize) -> Vec<Option<u32>> {
    let mut random = Random(rows as u64);
    let mut label = || (random.next_below(3) > 0 && classes > 0).then(|| random.next_below(classes) as u32);
    (0..rows).map(|_| label()).collect()
}

/// The mean loss in `f64`.
fn reference(z: &[f64], classes: usize, labels: &[Option<u32>]) -> f64 {
    let rows = labels.iter().enumerate().filter_map(|(i, label)| Some((&z[i * classes..][..classes], (*label)?)));
    let losses = rows.map(|(z, label)| {
        let largest = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        z.iter().map(|z| (z - largest).exp()).sum::<f64>().ln() + largest - z[label as usize]
    });
    losses.sum::<f64>() / labels.iter().flatten().count().max(1) as f64
}

/// Losses and gradients in every layout, gradients also against finite differences of the reference.
pub(crate) fn losses<T: Scalar>(device: &Device) {
    for (rows, classes) in SIZES {
        let mut z: Vec<T> = Random(7).vector(rows * classes);
        z.iter_mut().for_each(|z| *z = t::<T>(4.0) * *z);
        let of_rows = labels(rows, classes);
        let exact: Vec<f64> = z.iter().map(|z| z.to_f64()).collect();
        let loss = reference(&exact, classes, &of_rows);
        let m = of_rows.iter().flatten().count().max(1) as f64;
        let gradient: Vec<(f64, f64)> = (0..z.len())
            .map(|at| {
                let (i, h) = (at / classes, 1e-4);
                // Of the row alone, so that nothing is lost in the sum over the others.
                let of_row = |shift: f64| {
                    let mut z = exact[i * classes..][..classes].to_vec();
                    z[at % classes] += shift;
                    reference(&z, classes, &of_rows[i..=i]) / m
                };
                let slope = (8.0 * (of_row(h) - of_row(-h)) - (of_row(2.0 * h) - of_row(-2.0 * h))) / (12.0 * h);
                (slope, 1e-6 * slope.abs() + (4.0 * epsilon::<T>() + 1e-10) / m)
            })
            .collect();
        // Rows without a label are not read.
        for (i, _) in of_rows.iter().enumerate().filter(|(_, label)| label.is_none()) {
            z[i * classes..][..classes].fill(t(f64::NAN));
        }
        let of_rows = learning::Labels::new(device, classes, &of_rows).unwrap();
        for (layout, into) in layouts(rows, classes).into_iter().zip(layouts(rows, classes).into_iter().cycle().skip(1))
        {
            let case = format!("{rows} rows of {classes} as {layout:?}");
            let logits = framed(device, layout, &z, classes);
            let logits = logits.matrix(layout).unwrap();
            let mut found = device.scalar(t::<T>(f64::NAN)).unwrap();
            learning::cross_entropy(logits, &of_rows, &mut found).unwrap();
            assert_within(&case, &[found.get().unwrap()], &[(loss, 4.0 * epsilon::<T>() * (loss + 1.0))]);
            let nothing = vec![t::<T>(77.0); rows * classes];
            let mut slopes = framed(device, into, &nothing, classes);
            learning::cross_entropy_backward(logits, &of_rows, slopes.matrix_mut(into).unwrap()).unwrap();
            assert_within(&case, &slopes.matrix(into).unwrap().to_vec().unwrap(), &gradient);
            let numbers = slopes.to_vec().unwrap().iter().filter(|x| !x.to_f64().is_nan()).count();
            assert_eq!(numbers, rows * classes, "{case}: gaps have been written");
        }
    }
}

/// Ties go to the first class, and a NaN wins.
pub(crate) fn accuracies<T: Scalar>(device: &Device) {
    for (rows, classes) in SIZES {
        let mut random = Random(11);
        // Few different numbers, so that ties are common, and now and then no number.
        let mut number = || match random.next_below(40) {
            0 => f64::NAN,
            _ => random.next_below(4) as f64 - 5.0,
        };
        let z: Vec<T> = (0..rows * classes).map(|_| t(number())).collect();
        let best = |i: usize| {
            let row: Vec<f64> = z[i * classes..][..classes].iter().map(|z| z.to_f64()).collect();
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            row.iter().position(|z| z.is_nan()).or_else(|| row.iter().position(|&z| z == largest))
        };
        // The best class in most rows, else any.
        let label = |(i, label): (usize, Option<u32>)| {
            label.map(|label| if i % 3 == 2 { label } else { best(i).unwrap() as u32 })
        };
        let of_rows: Vec<_> = labels(rows, classes).into_iter().enumerate().map(label).collect();
        let hits =
            of_rows.iter().enumerate().filter(|(i, label)| label.is_some_and(|label| best(*i) == Some(label as usize)));
        let expected = hits.count() as f64 / of_rows.iter().flatten().count().max(1) as f64;
        let of_rows = learning::Labels::new(device, classes, &of_rows).unwrap();
        for layout in layouts(rows, classes) {
            let logits = framed(device, layout, &z, classes);
            let mut share = device.scalar(t::<T>(f64::NAN)).unwrap();
            learning::accuracy(logits.matrix(layout).unwrap(), &of_rows, &mut share).unwrap();
            let case = format!("{rows} rows of {classes} as {layout:?}");
            assert_within(&case, &[share.get().unwrap()], &[(expected, epsilon::<T>())]);
        }
    }
}

/// Logits so large or small that their exponentials are no numbers, or all the same.
pub(crate) fn ends_of_the_range<T: Scalar>(device: &Device) {
    let check = |z: &[f64], label: u32, loss: f64, gradient: &[f64]| {
        let z: Vec<T> = z.iter().map(|&z| t(z)).collect();
        let labels = learning::Labels::new(device, z.len(), &[Some(label)]).unwrap();
        let logits = device.upload_dense((1, z.len()), &z).unwrap();
        let (mut found, mut slopes) = (device.scalar(T::default()).unwrap(), device.zeros_dense((1, z.len())).unwrap());
        learning::cross_entropy(&logits, &labels, &mut found).unwrap();
        learning::cross_entropy_backward(&logits, &labels, &mut slopes).unwrap();
        let (found, slopes) = (found.get().unwrap().to_f64(), slopes.to_vec().unwrap());
        let is_same =
            |a: f64, b: f64| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 2.0 * epsilon::<T>() * b.abs();
        assert!(is_same(found, loss), "{z:?}: a loss of {found}");
        let are_same = slopes.iter().zip(gradient).all(|(a, &b)| is_same(a.to_f64(), b));
        assert!(are_same, "{z:?}: gradients {slopes:?}");
    };
    let (infinity, nan) = (f64::INFINITY, f64::NAN);
    check(&[1e30, -1e30, 0.0], 0, 0.0, &[0.0, 0.0, 0.0]);
    check(&[1e4, -1e4], 1, 2e4, &[1.0, -1.0]);
    check(&[1e30; 4], 2, 4f64.ln(), &[0.25, 0.25, -0.75, 0.25]);
    check(&[-1e30; 2], 0, 2f64.ln(), &[-0.5, 0.5]);
    check(&[0.0, -infinity], 0, 0.0, &[0.0, 0.0]);
    check(&[0.0, -infinity], 1, infinity, &[1.0, -1.0]);
    check(&[0.0, nan, 1.0], 0, nan, &[nan; 3]);
    check(&[0.0, infinity], 1, nan, &[nan; 2]);
    check(&[5.0], 0, 0.0, &[0.0]);
}
