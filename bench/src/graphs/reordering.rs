//! What an order of rows costs, and after how many products it has paid.

use std::time::Instant;

use serde::Serialize;
use warpsparse::{CsrMatrix, Result};

/// A matrix with its rows and columns in the order that `cluster_rows` finds.
pub(super) struct Reordered {
    pub(super) order: Vec<u32>,
    pub(super) matrix: CsrMatrix<f32>,
    cluster_us: f64,
    permute_us: f64,
}

/// The time that this took on the host, beside that of products.
#[derive(Serialize)]
pub(crate) struct Reordering {
    /// To find the order.
    pub(crate) cluster_ms: f64,
    /// To bring rows and columns into it.
    pub(crate) permute_ms: f64,
    /// Both, in products of the matrix as it is.
    pub(crate) cluster_products: f64,
    pub(crate) permute_products: f64,
    /// After how many products taking rows in this order has paid; none if it gains nothing, or was not
    /// measured.
    pub(crate) rows_pay_after: Option<u64>,
    /// The same of rows and columns in this order, which have been brought into it.
    pub(crate) all_pay_after: Option<u64>,
}

impl Reordered {
    pub(super) fn of(matrix: &CsrMatrix<f32>) -> Result<Self> {
        let start = Instant::now();
        let order = matrix.cluster_rows();
        let clustered = Instant::now();
        let matrix = matrix.permute(&order, &order)?;
        let cluster_us = (clustered - start).as_secs_f64() * 1e6;
        Ok(Self { order, matrix, cluster_us, permute_us: clustered.elapsed().as_secs_f64() * 1e6 })
    }

    /// Beside the times of products: of the matrix as it is, with rows in this order, and with columns as well.
    pub(super) fn report(&self, chosen_us: f64, rows_us: Option<f64>, all_us: Option<f64>) -> Reordering {
        let &Self { cluster_us, permute_us, .. } = self;
        Reordering {
            cluster_ms: cluster_us / 1e3,
            permute_ms: permute_us / 1e3,
            cluster_products: cluster_us / chosen_us,
            permute_products: permute_us / chosen_us,
            rows_pay_after: pays_after(cluster_us, chosen_us - rows_us.unwrap_or(chosen_us)),
            all_pay_after: pays_after(cluster_us + permute_us, chosen_us - all_us.unwrap_or(chosen_us)),
        }
    }
}

/// How many products have gained, in all, what was spent.
fn pays_after(spent: f64, gain: f64) -> Option<u64> {
    (gain > 0.0).then(|| (spent / gain).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_pays_after_what_it_cost_over_what_it_gains() {
        let matrix = CsrMatrix::try_from_csr_data(1, 1, vec![0u32, 1], vec![0], vec![2.0]).unwrap();
        let reordered = Reordered { order: vec![0], matrix, cluster_us: 1000.0, permute_us: 500.0 };
        let report = reordered.report(10.0, Some(7.0), Some(5.0));
        assert_eq!((report.cluster_ms, report.permute_ms), (1.0, 0.5));
        assert_eq!((report.cluster_products, report.permute_products), (100.0, 50.0));
        assert_eq!((report.rows_pay_after, report.all_pay_after), (Some(334), Some(300)));
        let never = reordered.report(10.0, Some(10.0), Some(11.0));
        assert_eq!((never.rows_pay_after, never.all_pay_after), (None, None));
        assert_eq!(reordered.report(10.0, None, None).rows_pay_after, None);
    }
}
