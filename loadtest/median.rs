//! What tells of rounds on a noisy machine.

pub fn median(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => None,
        n if n % 2 == 1 => Some(figures[middle]),
        _ => Some(f64::midpoint(figures[middle - 1], figures[middle])),
    }
}
