//! Statement texts for batches of 1, 2, 4 … rows.
//!
//! Few fixed texts stay in every connection's statement cache; a text per batch length would not.

/// The most rows that share a write.
pub const MAX_ROWS: usize = 64;
/// The most ids in a list: all the leases of an instance, as a rule.
pub const MAX_IDS: usize = 1024;

/// One text per power of two.
pub struct Sizes(Vec<&'static str>);

impl Sizes {
    /// `max` is a power of two.
    pub fn up_to(max: usize, text: impl Fn(usize) -> String) -> Self {
        Self((0..=max.ilog2()).map(|power| lasting(text(1 << power))).collect())
    }

    /// The text for exactly `rows` rows, which is a power of two.
    pub fn exactly(&self, rows: usize) -> &'static str {
        debug_assert!(rows.is_power_of_two());
        self.0[rows.ilog2() as usize]
    }
}

/// Texts live as long as the process: there are a handful of them, made once.
pub fn lasting(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// The largest batch that can be cut from a queue of `waiting` rows.
pub fn batch_of(waiting: usize) -> usize {
    match waiting {
        0 => 0,
        n => (1 << n.ilog2()).min(MAX_ROWS),
    }
}

/// `row` repeated and joined.
pub fn repeat(row: &str, rows: usize, separator: &str) -> String {
    vec![row; rows].join(separator)
}

/// Lengthens a list to the next power of two with copies of its last element: harmless in an `IN`.
pub fn padded<T: Copy>(mut list: Vec<T>) -> Vec<T> {
    if let Some(&last) = list.last() {
        list.resize(list.len().next_power_of_two(), last);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_the_largest_power_of_two_that_the_queue_fills() {
        let sizes: Vec<_> = [0, 1, 2, 3, 7, 8, 63, 64, 1000].map(batch_of).into();
        assert_eq!(sizes, [0, 1, 2, 2, 4, 8, 32, 64, 64]);
    }

    #[test]
    fn padding_repeats_only_the_last() {
        assert_eq!(padded(vec![1, 2, 3]), [1, 2, 3, 3]);
        assert_eq!(padded(vec![5]), [5]);
        assert!(padded(Vec::<u8>::new()).is_empty());
    }
}
