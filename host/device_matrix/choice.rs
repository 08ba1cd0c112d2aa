//! The choice of kernels for a matrix: made by its upload, or at its first product.

use std::{fmt, sync::OnceLock};

use crate::{
    Error, KernelChoice, Result, Structure,
    device::paused,
    spmm::Spmm,
    spmv::{Chosen, Spmv, SpmvOptions},
};

/// The kernels chosen for a matrix.
#[derive(Debug)]
pub(super) struct Choice<T> {
    pub(super) structure: Option<Structure>,
    pub(super) products: Products<T>,
    /// Options that lead to the same kernels without another choice.
    pub(super) options: SpmvOptions,
}

/// The products that a matrix supports: at least one of them.
#[derive(Debug)]
pub(super) struct Products<T> {
    pub(super) product: Option<Chosen<T>>,
    pub(super) transposed: Option<Chosen<T>>,
    /// Products of the matrix or of its transpose with dense matrices.
    pub(super) dense: Dense<T>,
}

/// The products with dense matrices that a matrix supports.
#[derive(Debug)]
pub(super) enum Dense<T> {
    None,
    Product(Box<dyn Spmm<T>>),
    Transposed(Box<dyn Spmm<T>>),
}

/// A choice, or how to make it.
pub(super) struct Choices<T> {
    made: OnceLock<Choice<T>>,
    make: Option<Box<dyn Fn() -> Result<Choice<T>> + Send + Sync>>,
}

impl<T> Choices<T> {
    /// The choice of an upload.
    pub(super) fn made(choice: Choice<T>) -> Self {
        Self { made: OnceLock::from(choice), make: None }
    }

    /// The choice that `make` will make when it is first wanted.
    pub(super) fn later(make: impl Fn() -> Result<Choice<T>> + Send + Sync + 'static) -> Self {
        Self { made: OnceLock::new(), make: Some(Box::new(make)) }
    }

    /// Returns the choice, which is made now if it has not been. If two threads make it at once, the first to end wins.
    pub(super) fn get(&self) -> Result<&Choice<T>> {
        if let (None, Some(make)) = (self.made.get(), &self.make) {
            let choice = paused(make)?;
            return Ok(self.made.get_or_init(|| choice));
        }
        Ok(self.made.get().expect("a choice that is not made later has been made"))
    }

    /// Returns the choice if it has been made.
    pub(super) fn known(&self) -> Option<&Choice<T>> {
        self.made.get()
    }

    /// Changes the choice, which is made before.
    pub(super) fn map(self, change: impl FnOnce(Choice<T>) -> Choice<T>) -> Result<Self> {
        self.get()?;
        Ok(Self::made(change(self.made.into_inner().expect("the choice has just been made"))))
    }
}

impl<T: fmt::Debug> fmt::Debug for Choices<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.made.get() {
            Some(choice) => choice.fmt(f),
            None => f.write_str("Choices(at the first product)"),
        }
    }
}

impl<T> Choice<T> {
    /// The kernels for the transpose of a matrix, from those for the matrix: with the products exchanged.
    pub(super) fn of_transpose(self) -> Self {
        let Products { product, transposed, dense } = self.products;
        let dense = match dense {
            Dense::Product(operator) => Dense::Transposed(operator),
            Dense::Transposed(_) | Dense::None => Dense::None,
        };
        let products = Products { product: transposed, transposed: product, dense };
        Self { structure: None, products, ..self }
    }
}

impl<T> Choice<T> {
    /// With another reason for the kernel of the product.
    pub(super) fn with_reason(mut self, also: &str) -> Self {
        if let Some(product) = &mut self.products.product {
            product.choice.reason = format!("{}; {also}", product.choice.reason);
        }
        self
    }
}

impl<T> Products<T> {
    /// For a format with one kernel and no transposed products.
    pub(super) fn of_one_kernel(product: Chosen<T>) -> Self {
        Self { product: Some(product), transposed: None, dense: Dense::None }
    }

    pub(super) fn describe(&self) -> KernelChoice {
        let chosen = self.product.as_ref().or(self.transposed.as_ref()).expect("a matrix has one of the two");
        chosen.choice.clone()
    }

    pub(super) fn product(&self) -> Result<&dyn Spmv<T>> {
        self.product.as_ref().map(|chosen| &*chosen.operator).ok_or_else(|| {
            let way_out = "allow it by SpmvOptions::nondeterministic, or upload CsrMatrix::try_from(&matrix)";
            not_allowed("a CSC matrix", way_out)
        })
    }

    pub(super) fn transposed(&self, is_csr: bool) -> Result<&dyn Spmv<T>> {
        self.transposed.as_ref().map(|chosen| &*chosen.operator).ok_or_else(|| match is_csr {
            true => {
                let way_out = "allow it by SpmvOptions::nondeterministic, or upload the transpose";
                not_allowed("the transpose of a CSR matrix", way_out)
            }
            false => Error::Unsupported("products with the transpose of a matrix in this format".into()),
        })
    }

    pub(super) fn dense(&self) -> Result<&dyn Spmm<T>> {
        match &self.dense {
            Dense::Product(operator) => Ok(&**operator),
            Dense::Transposed(_) => {
                unsupported("a CSC matrix: it has those of the transpose; upload CsrMatrix::try_from(&matrix)")
            }
            Dense::None => unsupported("a matrix that is not in CSR or BSR on the device"),
        }
    }

    pub(super) fn dense_transposed(&self) -> Result<&dyn Spmm<T>> {
        match &self.dense {
            Dense::Transposed(operator) => Ok(&**operator),
            Dense::Product(_) => {
                unsupported("the transpose of a matrix in CSR or BSR: upload CscMatrix::try_from(&matrix)")
            }
            Dense::None => unsupported("the transpose of a matrix that is not in CSC on the device"),
        }
    }
}

fn unsupported<R>(matrix: &str) -> Result<R> {
    Err(Error::Unsupported(format!("products of dense matrices with {matrix}")))
}

fn not_allowed(matrix: &str, way_out: &str) -> Error {
    Error::InvalidOption(format!("a product with {matrix} adds in an order that changes from run to run: {way_out}"))
}
