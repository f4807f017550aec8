//! Slices: labels whose indices an outer loop goes through part by part, so that no intermediate is larger than the
//! caller allows.

use crate::lower::schedule::{Schedule, Stage};
use std::fmt;
use treadle_core::subscripts::Label;
use treadle_core::{Error, ErrorCode, Result};

/// Slices that a contraction may be cut into, at most: more would take days.
const MOST_SLICES: f64 = (1u64 << 32) as f64;
/// Labels whose last part may be shorter than the others. Each doubles the number of plans inside.
const UNEVEN: usize = 2;
/// Labels up to which every place of a new one among the loops is tried.
const ORDERED: usize = 12;

/// A label that an outer loop goes through in parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    pub(crate) label: Label,
    pub(crate) extent: usize,
    /// Indices of a part; the last one may have fewer.
    pub(crate) chunk: usize,
}

impl Cut {
    /// How many parts there are.
    pub(crate) fn parts(&self) -> usize {
        self.extent.div_ceil(self.chunk)
    }

    /// Parts of `chunk` indices.
    pub(crate) fn full(&self) -> usize {
        self.extent / self.chunk
    }

    /// Indices of a last, shorter part, or zero.
    pub(crate) fn tail(&self) -> usize {
        self.extent % self.chunk
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} parts of {}", self.parts(), self.chunk)?;
        match self.tail() {
            0 => Ok(()),
            tail => write!(f, ", the last of {tail}"),
        }
    }
}

/// What speaks for a cut.
struct Merit {
    /// Extra work for what is saved, both as logarithms.
    price: f64,
    /// The intermediate is as small as it must be.
    is_enough: bool,
    /// By what factor it is smaller.
    saved: f64,
    cut: Cut,
}

impl Merit {
    fn beats(&self, other: &Merit) -> bool {
        if self.price != other.price {
            return self.price < other.price;
        }
        match (self.is_enough, other.is_enough) {
            // The fewest slices, and what is left of a label as long as can be.
            (true, true) => (self.cut.parts(), other.cut.chunk) < (other.cut.parts(), self.cut.chunk),
            (false, false) => self.saved > other.saved,
            (enough, _) => enough,
        }
    }
}

/// Chooses the labels to cut.
#[derive(Debug)]
pub(crate) struct Slicer<'s> {
    schedule: &'s Schedule,
    /// Labels with more than one index, by tensor.
    carried: &'s [Vec<Label>],
    extents: &'s [usize],
    /// Pairs on constants alone, which are not cut.
    prepared: &'s [bool],
    limit: usize,
    /// Indices in one part, by label.
    chunks: Vec<usize>,
    /// Outermost first.
    cuts: Vec<Cut>,
}

impl<'s> Slicer<'s> {
    pub(crate) fn new(
        schedule: &'s Schedule,
        carried: &'s [Vec<Label>],
        extents: &'s [usize],
        prepared: &'s [bool],
        limit: usize,
    ) -> Slicer<'s> {
        Slicer {
            schedule,
            carried,
            extents,
            prepared,
            limit,
            chunks: extents.to_vec(),
            cuts: Vec::new(),
        }
    }

    /// The labels that are cut, outermost first.
    pub(crate) fn cuts(&self) -> &[Cut] {
        &self.cuts
    }

    fn elements(&self, labels: &[Label]) -> f64 {
        labels
            .iter()
            .map(|&label| self.chunks[label as usize] as f64)
            .product()
    }

    /// Cuts until every intermediate that the pairs are known to need is small enough.
    pub(crate) fn fit(&mut self) -> Result<()> {
        let needed = self.intermediates();
        if self.limit == 0 && !needed.is_empty() {
            return Err(self.nothing_left());
        }
        loop {
            let mut largest: Option<(&Vec<Label>, f64)> = None;
            for labels in &needed {
                let elements = self.elements(labels);
                if elements > self.limit as f64 && largest.is_none_or(|(_, known)| elements > known) {
                    largest = Some((labels, elements));
                }
            }
            let Some((labels, _)) = largest else {
                return Ok(());
            };
            self.cut(labels)?;
        }
    }

    /// Labels of everything that is neither an operand nor the result: results of pairs, and operands whose own labels
    /// are summed before.
    fn intermediates(&self) -> Vec<Vec<Label>> {
        let operands = self.schedule.operands;
        let mut found = Vec::new();
        for (at, pair) in self.schedule.pairs.iter().enumerate() {
            if self.prepared[at] {
                continue;
            }
            for (own, partner) in [(0, 1), (1, 0)] {
                let tensor = pair.inputs[own];
                let labels = &self.carried[tensor];
                let partner = &self.carried[pair.inputs[partner]];
                let needed: Vec<Label> = labels
                    .iter()
                    .copied()
                    .filter(|label| pair.kept.contains(label) || partner.contains(label))
                    .collect();
                if tensor < operands && needed.len() < labels.len() {
                    found.push(needed);
                }
            }
            if at + 1 < self.schedule.pairs.len() {
                found.push(self.carried[operands + at].clone());
            }
        }
        found
    }

    /// Cuts one of these labels further: the one that costs the least extra work for what it saves.
    pub(crate) fn cut(&mut self, labels: &[Label]) -> Result<()> {
        let before = self.work(&self.cuts);
        let elements = self.elements(labels);
        let mut best: Option<(Merit, Vec<Cut>)> = None;
        let mut sorted = labels.to_vec();
        sorted.sort_unstable();
        for label in sorted {
            let now = self.chunks[label as usize];
            if now <= 1 {
                continue;
            }
            let cut = self.narrowed(label, elements / now as f64);
            let saved = now as f64 / cut.chunk as f64;
            let (work, cuts) = self.with(cut);
            let price = (work / before).ln().max(0.0) / saved.ln();
            let merit = Merit {
                // Work beyond all numbers is no price; any cut is better than none.
                price: if price.is_nan() { f64::MAX } else { price },
                is_enough: elements / saved <= self.limit as f64,
                saved,
                cut,
            };
            if best.as_ref().is_none_or(|(known, _)| merit.beats(known)) {
                best = Some((merit, cuts));
            }
        }
        let Some((_, cuts)) = best else {
            return Err(self.nothing_left());
        };
        self.cuts = cuts;
        for cut in &self.cuts {
            self.chunks[cut.label as usize] = cut.chunk;
        }
        let slices: f64 = self.cuts.iter().map(|cut| cut.parts() as f64).product();
        if slices > MOST_SLICES {
            return Err(Error::new(
                ErrorCode::Unsupported,
                format!(
                    "this path needs more than {MOST_SLICES:.0} slices to obey memory_limit={}; choose another path or a \
                     larger limit",
                    self.limit
                ),
            )
            .with("limit", self.limit));
        }
        Ok(())
    }

    fn nothing_left(&self) -> Error {
        Error::new(
            ErrorCode::Unsupported,
            format!(
                "an intermediate of this path has 1 element with every label sliced, more than memory_limit={}; \
                 choose a larger limit",
                self.limit
            ),
        )
        .with("limit", self.limit)
    }

    /// The cut of a label that makes a tensor small enough whose other labels have `others` elements, or the finest.
    fn narrowed(&self, label: Label, others: f64) -> Cut {
        let extent = self.extents[label as usize];
        let allowed = (self.limit as f64 / others).floor();
        // The chunk is finer than the last in any case.
        let most = self.chunks[label as usize] - 1;
        let allowed = if allowed >= most as f64 {
            most
        } else {
            allowed as usize
        }
        .max(1);
        // Parts of about one length.
        let mut chunk = extent.div_ceil(extent.div_ceil(allowed));
        let uneven = self
            .cuts
            .iter()
            .filter(|cut| cut.label != label && cut.tail() != 0)
            .count();
        if uneven >= UNEVEN {
            while !extent.is_multiple_of(chunk) {
                chunk -= 1;
            }
        }
        Cut { label, extent, chunk }
    }

    /// The cuts with one more, or with a finer one, in the order with the least work.
    fn with(&self, cut: Cut) -> (f64, Vec<Cut>) {
        if let Some(at) = self.cuts.iter().position(|own| own.label == cut.label) {
            let mut cuts = self.cuts.clone();
            cuts[at] = cut;
            return (self.work(&cuts), cuts);
        }
        let last = self.cuts.len();
        let first = if last < ORDERED { 0 } else { last };
        let mut best: Option<(f64, Vec<Cut>)> = None;
        for place in (first..=last).rev() {
            let mut cuts = self.cuts.clone();
            cuts.insert(place, cut);
            let work = self.work(&cuts);
            if best.as_ref().is_none_or(|(known, _)| work < *known) {
                best = Some((work, cuts));
            }
        }
        best.unwrap_or_default()
    }

    /// Multiplications of all slices.
    fn work(&self, cuts: &[Cut]) -> f64 {
        let stages = stages(self.schedule, self.carried, self.prepared, cuts);
        let mut work = 0.0;
        for at in 0..self.schedule.pairs.len() {
            work += repeats(self.schedule, self.carried, &stages, cuts, at)
                * self
                    .union(at)
                    .map(|label| self.extents[label as usize] as f64)
                    .product::<f64>();
        }
        work
    }

    fn union(&self, pair: usize) -> impl Iterator<Item = Label> {
        union(self.schedule, self.carried, pair)
    }
}

fn union(schedule: &Schedule, carried: &[Vec<Label>], pair: usize) -> impl Iterator<Item = Label> {
    let [first, second] = schedule.pairs[pair].inputs.map(|tensor| &carried[tensor]);
    first
        .iter()
        .chain(second.iter().filter(|label| !first.contains(label)))
        .copied()
}

/// When each pair runs: in the innermost loop over a label that it depends on.
pub(crate) fn stages(
    schedule: &Schedule,
    carried: &[Vec<Label>],
    prepared: &[bool],
    cuts: &[Cut],
) -> Vec<Stage> {
    let own = |labels: &[Label]| {
        cuts.iter()
            .rposition(|cut| labels.contains(&cut.label))
            .map_or(0, |at| at + 1)
    };
    let mut depth: Vec<usize> = carried[..schedule.operands]
        .iter()
        .map(|labels| own(labels))
        .collect();
    let mut stages = Vec::with_capacity(schedule.pairs.len());
    for (at, pair) in schedule.pairs.iter().enumerate() {
        if prepared[at] {
            depth.push(own(&carried[schedule.operands + at]));
            stages.push(Stage::Prepared);
        } else {
            let level = depth[pair.inputs[0]].max(depth[pair.inputs[1]]);
            depth.push(level);
            stages.push(Stage::Level(level));
        }
    }
    stages
}

/// How many times the work of a pair is done over all slices: loops that it runs in over labels that it has not. Zero
/// for what is prepared.
pub(crate) fn repeats(
    schedule: &Schedule,
    carried: &[Vec<Label>],
    stages: &[Stage],
    cuts: &[Cut],
    pair: usize,
) -> f64 {
    match stages[pair] {
        Stage::Prepared => 0.0,
        Stage::Level(level) => cuts[..level]
            .iter()
            .filter(|cut| union(schedule, carried, pair).all(|label| label != cut.label))
            .map(|cut| cut.parts() as f64)
            .product(),
    }
}
