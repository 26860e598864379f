//! What comes out of a sweep.

use crate::interval::Interval;
use serde::Serialize;

/// A level of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LevelRow {
    /// Users, connections or instances.
    pub level: f64,
    /// Geometric mean of the throughput, op/s.
    pub throughput: f64,
    /// Throughput over that of the lowest level.
    pub speed_up: f64,
    /// Its interval; with 95 % probability those of all levels hold.
    pub speed_up_interval: Option<Interval>,
    /// Speed-up over what the number of users, connections or instances grew by: 1 when nothing is lost.
    pub efficiency: f64,
    /// Its interval.
    pub efficiency_interval: Option<Interval>,
    /// Throughput by the law, if there is a fit.
    pub fitted: Option<f64>,
}

/// A coefficient with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Parameter {
    /// Its estimate.
    pub value: f64,
    /// Its 95 % interval, by itself; none below 3 blocks.
    pub interval: Option<Interval>,
}

/// The law, fitted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LawFit {
    /// Throughput of one, op/s.
    pub lambda: Parameter,
    /// Contention, at least 0.
    pub sigma: Parameter,
    /// Coherence, at least 0.
    pub kappa: Parameter,
    /// The number at which throughput begins to fall; only where levels beyond it were measured and kappa's interval
    /// excludes 0.
    pub bend: Option<Parameter>,
    /// The largest distance of a level's throughput from the law, as a share.
    pub misfit: f64,
    /// How likely noise alone puts the levels as far from the law; none below 3 blocks.
    pub misfit_p: Option<f64>,
    /// Whether the law describes the levels. If not, its coefficients mean nothing.
    pub fits: bool,
}
