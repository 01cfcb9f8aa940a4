//! From values to places on the paper.

/// An axis, linear or logarithmic, that covers all values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    /// Least and greatest value; of a logarithmic axis their logarithms.
    values: (f64, f64),
    /// Where those are.
    places: (f64, f64),
    logarithmic: bool,
}

/// A labelled place.
#[derive(Clone, Debug)]
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) label: String,
}

/// Multiples of a power of ten at which ticks look well.
const NICE: [f64; 3] = [1.0, 2.0, 5.0];

impl Axis {
    pub(super) fn linear(values: (f64, f64), places: (f64, f64)) -> Self {
        Self { values, places, logarithmic: false }
    }

    /// From a nice number below the least value to one above the greatest; both are above zero.
    pub(super) fn logarithmic((least, most): (f64, f64), places: (f64, f64)) -> Self {
        let least = *nice_up_to(least).last().unwrap_or(&least);
        let most = nice_from(most).next().unwrap_or(most);
        let most = if most > least { most } else { least * 10.0 };
        Self { values: (least.log10(), most.log10()), places, logarithmic: true }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.max(f64::MIN_POSITIVE).log10() } else { value };
        let (least, most) = self.values;
        let share = ((value - least) / (most - least)).clamp(0.0, 1.0);
        self.places.0 + share * (self.places.1 - self.places.0)
    }

    /// Values for at most about so many ticks.
    pub(super) fn ticks(&self, most: usize) -> Vec<f64> {
        let (least, greatest) = self.values;
        if !self.logarithmic {
            let step = nice_from((greatest - least) / most as f64).next().unwrap_or(1.0);
            let count = (0..)
                .take_while(|index| least + f64::from(*index) * step <= greatest * (1.0 + 1e-9));
            return count.map(|index| least + f64::from(index) * step).collect();
        }
        let inside = |value: &f64| value.log10() <= greatest + 1e-9;
        let all: Vec<_> = nice_from(10_f64.powf(least)).take_while(inside).collect();
        if all.len() <= most {
            return all;
        }
        let is_power = |value: &f64| (value.log10() - value.log10().round()).abs() < 1e-9;
        all.into_iter().filter(is_power).collect()
    }
}

/// Nice numbers from the first one that is not less than `value`.
fn nice_from(value: f64) -> impl Iterator<Item = f64> {
    let first = value.log10().floor();
    let all = (0..40)
        .flat_map(move |power| NICE.map(|nice| nice * 10_f64.powf(first + f64::from(power))));
    all.skip_while(move |nice| *nice < value * (1.0 - 1e-9))
}

/// Nice numbers of the value's power of ten, up to the value.
fn nice_up_to(value: f64) -> Vec<f64> {
    let power = 10_f64.powf(value.log10().floor());
    NICE.iter().map(|nice| nice * power).filter(|nice| *nice <= value * (1.0 + 1e-9)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounded(ticks: &[f64]) -> Vec<f64> {
        ticks.iter().map(|tick| (tick * 1e6).round() / 1e6).collect()
    }

    #[test]
    fn a_linear_axis_has_round_steps() {
        let axis = Axis::linear((0.0, 30.0), (0.0, 300.0));
        assert_eq!(rounded(&axis.ticks(10)), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
        assert_eq!((axis.place(0.0), axis.place(15.0), axis.place(30.0)), (0.0, 150.0, 300.0));
        let axis = Axis::linear((0.0, 0.2), (0.0, 300.0));
        assert_eq!(rounded(&axis.ticks(10)).len(), 11);
    }

    #[test]
    fn a_logarithmic_axis_begins_and_ends_at_round_values() {
        let axis = Axis::logarithmic((300.0, 7_000.0), (100.0, 0.0));
        assert_eq!(rounded(&axis.ticks(8)), [200.0, 500.0, 1e3, 2e3, 5e3, 1e4]);
        assert_eq!((axis.place(200.0).round(), axis.place(1e4).round()), (100.0, 0.0));
        assert_eq!((axis.place(1.0), axis.place(1e9)), (100.0, 0.0), "outside is at the edge");
    }

    #[test]
    fn of_many_powers_only_powers_are_ticks() {
        let axis = Axis::logarithmic((1.0, 1e5), (100.0, 0.0));
        assert_eq!(rounded(&axis.ticks(8)), [1.0, 10.0, 100.0, 1e3, 1e4, 1e5]);
    }

    #[test]
    fn one_value_has_an_axis_too() {
        let axis = Axis::logarithmic((1_000.0, 1_000.0), (100.0, 0.0));
        assert!(axis.place(1_000.0).is_finite());
        assert!(axis.ticks(8).len() >= 2);
    }
}
