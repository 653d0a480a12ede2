//! How long a tier takes to answer, and how often it fails.

use super::StoreError;
use crate::clock;
use crate::telemetry::metrics::{self, Operation};

pub async fn observed<T>(
    operation: Operation,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let began = clock::now();
    let result = call.await;
    metrics::tier_asked(operation, began.elapsed(), result.is_err());
    result
}
