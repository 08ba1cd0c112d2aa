//! Cross entropy of the softmax of rows, and accuracy.

use kernels_gpu::cross_entropy::{GradientArgs, Key, Logits, NO_LABEL, Of, RowArgs, grid_size};

use crate::{
    DenseMut, DenseRef, Device, DeviceScalar, DeviceVec, Error, Order, Reduction, Result, Scalar,
    device::{Backend, KernelLaunch, check_length, launch},
    memory,
    parallel::for_blocks,
};

/// The labels of the rows of a matrix, each less than the number of classes, on a device. Rows may have no label: those of a training set have theirs in one
/// `Labels`, those of a test set in another.
#[derive(Debug)]
pub struct Labels {
    of_rows: DeviceVec<u32>,
    classes: usize,
    labelled: usize,
}

impl Labels {
    /// Uploads the labels of all rows. Waits for the copy.
    ///
    /// # Errors
    /// [`InvalidOption`](Error::InvalidOption) naming the first label that is not less than `classes`; [`OutOfMemory`](Error::OutOfMemory),
    /// [`Driver`](Error::Driver).
    pub fn new(device: &Device, classes: usize, labels: &[Option<u32>]) -> Result<Self> {
        let mut of_rows = memory::room(labels.len())?;
        for (row, label) in labels.iter().enumerate() {
            if let Some(label) = label.filter(|&label| label as usize >= classes || label == NO_LABEL) {
                return Err(Error::InvalidOption(format!("label {label} of row {row}: there are {classes} classes")));
            }
            of_rows.push(label.unwrap_or(NO_LABEL));
        }
        let labelled = labels.iter().flatten().count();
        Ok(Self { of_rows: device.upload_vec(&of_rows)?, classes, labelled })
    }

    /// Returns the number of rows, with and without a label.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.of_rows.len()
    }

    /// Returns the number of classes.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Returns the number of rows that have a label.
    #[must_use]
    pub fn labelled(&self) -> usize {
        self.labelled
    }
}

/// Computes the mean cross entropy of the softmax of the labelled rows: `loss = -1/m * sum(ln p[i][label of i])` over the `m` labelled rows `i`, where `p[i][j] =
/// e^z[i][j] / sum_k e^z[i][k]` and `z` are the logits, a row for each label and a column for each class, in any [layout](crate::DenseLayout).
///
/// The largest logit of a row is subtracted first, so nothing overflows. Exponentials, and the losses of rows, are summed in `f64`. Without labelled rows the loss is
/// 0. A NaN or an infinity in a labelled row can make it NaN; other rows are not read. Queued without waiting; `O(rows * classes)` work and `rows` elements of temporary memory.
///
/// # Errors
/// [`LengthMismatch`](Error::LengthMismatch) unless the logits have the rows and classes of the labels; [`DeviceMismatch`](Error::DeviceMismatch),
/// [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver).
pub fn cross_entropy<'a, T: Scalar>(
    logits: impl Into<DenseRef<'a, T>>,
    labels: &Labels,
    loss: &mut DeviceScalar<T>,
) -> Result<()> {
    let on_row = |row: Row<'_, T>| row.ln_sum() - (row.at(row.label) - row.largest());
    mean_over_rows(Of::Loss, logits.into(), labels, loss, &on_row)
}

/// Computes the gradient of [`cross_entropy`] with respect to the logits: `gradient[i][j] = (p[i][j] - (j == label of i ? 1 : 0)) / m` in the `m` labelled rows, and 0 in
/// all others. Both matrices may have any layout. Queued on the stream of `gradient` without waiting; `O(rows * classes)` work.
///
/// # Errors
/// As [`cross_entropy`]; [`LengthMismatch`](Error::LengthMismatch) also unless the gradient has the size of the logits.
pub fn cross_entropy_backward<'a, 'b, T: Scalar>(
    logits: impl Into<DenseRef<'a, T>>,
    labels: &Labels,
    gradient: impl Into<DenseMut<'b, T>>,
) -> Result<()> {
    let (logits, gradient) = (logits.into(), gradient.into());
    check(gradient.device(), logits, labels)?;
    check_length("the column of the gradient", logits.nrows(), gradient.nrows())?;
    check_length("the row of the gradient", logits.ncols(), gradient.ncols())?;
    if logits.nrows() == 0 || logits.ncols() == 0 {
        return Ok(());
    }
    let scale = 1.0 / labels.labelled.max(1) as f64;
    if let Backend::Cpu { .. } = gradient.device().backend() {
        return backward_on_cpu(Rows::of(logits, labels), scale, gradient);
    }
    let (row_distance, class_distance) = distances(gradient.order(), gradient.leading_dimension());
    let blocks = grid_size(logits.nrows() as u64) as u32;
    let (queue, gradient) = gradient.into_writable();
    let logits = readable(logits, labels);
    let args = GradientArgs { gradient, scale, row_distance, class_distance, logits };
    let entry = Key { of: Of::Gradient, dtype: T::DTYPE }.entry();
    // SAFETY: both matrices have the size that the labels are for, labels are less than the classes, and the gradient is borrowed mutably.
    unsafe { launch(queue, entry, blocks, args) }
}

/// Computes the share of the labelled rows whose largest logit is that of their label, the first one of equal logits; 0 if no row has a label. A NaN counts as larger than any
/// number. Queued without waiting; `O(rows * classes)` work and `rows` elements of temporary memory.
///
/// # Errors
/// As [`cross_entropy`].
pub fn accuracy<'a, T: Scalar>(
    logits: impl Into<DenseRef<'a, T>>,
    labels: &Labels,
    share: &mut DeviceScalar<T>,
) -> Result<()> {
    let on_row = |row: Row<'_, T>| if row.first_of_largest() == row.label { 1.0 } else { 0.0 };
    mean_over_rows(Of::Hit, logits.into(), labels, share, &on_row)
}

/// The mean of a number for each labelled row.
fn mean_over_rows<T: Scalar>(
    of: Of,
    logits: DenseRef<'_, T>,
    labels: &Labels,
    mean: &mut DeviceScalar<T>,
    on_row: &(impl Fn(Row<'_, T>) -> f64 + Sync),
) -> Result<()> {
    let device = mean.device().clone();
    check(&device, logits, labels)?;
    if labels.labelled == 0 {
        return mean.set(T::default());
    }
    let mut of_rows = device.scratch(labels.rows())?;
    if let Backend::Cpu { .. } = device.backend() {
        let rows = Rows::of(logits, labels);
        for_blocks(0..labels.rows(), of_rows.as_slice_mut().on_cpu_mut(), &|range, numbers| {
            for (index, number) in range.zip(numbers) {
                *number = rows.get(index).map_or(T::default(), |row| T::from_f64(on_row(row)));
            }
        });
    } else {
        let blocks = grid_size(labels.rows() as u64) as u32;
        let args = RowArgs { of_rows: of_rows.writable(), logits: readable(logits, labels) };
        let entry = Key { of, dtype: T::DTYPE }.entry();
        // SAFETY: the matrix has the size that the labels are for, and labels are less than the classes.
        unsafe { launch(&device, entry, blocks, args) }?;
    }
    of_rows.reduce_into(Reduction::Sum, mean)?;
    mean.scale(T::from_f64(1.0 / labels.labelled as f64))
}

fn check<T: Scalar>(device: &Device, logits: DenseRef<'_, T>, labels: &Labels) -> Result<()> {
    check_length("the column of the logits", labels.rows(), logits.nrows())?;
    check_length("the row of the logits", labels.classes, logits.ncols())?;
    if labels.classes >= NO_LABEL as usize {
        return Err(Error::Unsupported(format!("{} classes: labels have 32 bits", labels.classes)));
    }
    device.check_same("the logits", logits.device())?;
    device.check_same("the labels", labels.of_rows.device())
}

fn readable<'a, T: Scalar>(logits: DenseRef<'a, T>, labels: &'a Labels) -> Logits<T, KernelLaunch<'a>> {
    let (row_distance, class_distance) = distances(logits.order(), logits.leading_dimension());
    Logits {
        rows: logits.nrows() as u64,
        classes: logits.ncols() as u32,
        row_distance,
        class_distance,
        z: logits.readable(),
        labels: labels.of_rows.readable(),
    }
}

/// From one row to the next, and from one element of a row to the next.
fn distances(order: Order, leading_dimension: usize) -> (u64, u64) {
    match order {
        Order::RowMajor => (leading_dimension as u64, 1),
        Order::ColumnMajor => (1, leading_dimension as u64),
    }
}

/// On the CPU: the rows with their labels.
struct Rows<'a, T> {
    elements: &'a [T],
    labels: &'a [u32],
    distances: (usize, usize),
    classes: usize,
}

impl<'a, T: Scalar> Rows<'a, T> {
    fn of(logits: DenseRef<'a, T>, labels: &'a Labels) -> Self {
        let (row, class) = distances(logits.order(), logits.leading_dimension());
        let labels = labels.of_rows.as_slice().on_cpu();
        let elements = logits.elements().on_cpu();
        Self { elements, labels, distances: (row as usize, class as usize), classes: logits.ncols() }
    }

    /// A row that has a label.
    fn get(&self, index: usize) -> Option<Row<'_, T>> {
        let label = Some(self.labels[index]).filter(|&label| label != NO_LABEL)?;
        Some(Row { rows: self, index, label: label as usize })
    }
}

/// On the CPU: a row.
struct Row<'a, T> {
    rows: &'a Rows<'a, T>,
    index: usize,
    label: usize,
}

impl<T: Scalar> Row<'_, T> {
    fn at(&self, class: usize) -> f64 {
        let (row, element) = self.rows.distances;
        self.rows.elements[self.index * row + class * element].to_f64()
    }

    fn logits(&self) -> impl Iterator<Item = f64> {
        (0..self.rows.classes).map(|class| self.at(class))
    }

    fn largest(&self) -> f64 {
        self.logits().fold(f64::NEG_INFINITY, f64::max)
    }

    /// The logarithm of the sum of the exponentials of all logits less the largest.
    fn ln_sum(&self) -> f64 {
        let largest = self.largest();
        self.logits().map(|z| (z - largest).exp()).sum::<f64>().ln()
    }

    fn first_of_largest(&self) -> usize {
        let is_larger = |z: f64, best: f64| !best.is_nan() && (z.is_nan() || z > best);
        (1..self.rows.classes)
            .fold(0, |best, class| if is_larger(self.at(class), self.at(best)) { class } else { best })
    }
}

fn backward_on_cpu<T: Scalar>(rows: Rows<'_, T>, scale: f64, gradient: DenseMut<'_, T>) -> Result<()> {
    let mut of_rows = memory::room(gradient.nrows())?;
    of_rows.resize(gradient.nrows(), (0.0, 0.0));
    for_blocks(0..of_rows.len(), &mut of_rows, &|range, of_rows| {
        for (index, numbers) in range.zip(of_rows) {
            *numbers = rows.get(index).map_or((0.0, 0.0), |row| (row.largest(), row.ln_sum()));
        }
    });
    let (order, leading) = (gradient.order(), gradient.leading_dimension());
    let width = if order == Order::RowMajor { gradient.ncols() } else { gradient.nrows() };
    let elements = gradient.into_elements().on_cpu_mut();
    for_blocks(0..elements.len(), elements, &|places, elements| {
        for (place, element) in places.zip(elements) {
            let (line, at) = (place / leading, place % leading);
            let (index, class) = if order == Order::RowMajor { (line, at) } else { (at, line) };
            if at < width {
                *element = rows.get(index).map_or(T::default(), |row| {
                    let (largest, ln_sum) = of_rows[index];
                    let p = (row.at(class) - largest - ln_sum).exp();
                    T::from_f64(scale * if class == row.label { p - 1.0 } else { p })
                });
            }
        }
    });
    Ok(())
}
