//! The picture of a plan's report: wanted and planned times, on a line for each key and zone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{self, Write};

use jiff::tz::TimeZone;
use tollgate_core::{Timestamp, schedule};

use super::super::answer::{Outcome, Plan};
use super::super::closed::spans;
use super::{SHOWN, shown};
use crate::report::axis::{TimeAxis, seconds};
use crate::report::svg::{self, Escaped, Length, UNIT};
use crate::text::{Grouped, Span, exact, printable, shortened};

/// The most rows of the picture; more would be unreadable.
const MOST_ROWS: usize = 40;

/// The most lines from wanted to planned times for each key.
const MOST_LINKS: usize = 400;

const WIDTH: u64 = 1_000;
const LEFT: u64 = 190;
const RIGHT: u64 = 36;
const ROW: u64 = 52;
/// Where the wanted and the planned times are within a row.
const WANTED: u64 = 15;
const PLANNED: u64 = 35;
/// The radius of a dot, and of one for a refused message, which is to be found among others.
const RADIUS: &str = "3.5";
const REFUSED_RADIUS: &str = "5";
const BOTTOM: u64 = 62;

/// The class of a refused message.
const REFUSED: &str = "over";

/// A message and its planned time, if it has one.
struct Mark<'p> {
    id: &'p str,
    zone: &'p TimeZone,
    wanted: Timestamp,
    outcome: &'p Outcome,
}

impl Mark<'_> {
    /// Returns the planned time, if there is one.
    fn planned(&self) -> Option<Timestamp> {
        match self.outcome {
            Outcome::Planned { time, .. } => Some(*time),
            Outcome::Refused { .. } => None,
        }
    }

    fn is_moved(&self) -> bool {
        self.planned() != Some(self.wanted)
    }

    fn tooltip(&self, key: &str) -> String {
        let wanted = exact(self.wanted, self.zone);
        let planned = match self.outcome {
            Outcome::Planned { time, .. } if *time == self.wanted => "planned as wanted".to_owned(),
            Outcome::Planned { time, quota } => format!(
                "planned at {}, {} later, {} in the way",
                exact(*time, self.zone),
                Span(time.saturating_duration_since(self.wanted)),
                shown(quota.as_ref()),
            ),
            Outcome::Refused { reason, .. } => format!("refused: {reason}"),
        };
        format!(
            "{}, {}: wanted at {wanted}, {planned}",
            printable(key.as_bytes()),
            printable(self.id.as_bytes())
        )
    }
}

/// The messages of a key in one time zone.
struct Row<'p> {
    key: &'p str,
    zone: &'p TimeZone,
    marks: Vec<Mark<'p>>,
}

impl<'p> Row<'p> {
    /// Returns the rows of the picture: those with the most moved and refused messages, and how many
    /// there are in all.
    fn of(plan: &'p Plan<'_>) -> (Vec<Self>, usize) {
        let mut places = HashMap::new();
        let mut rows: Vec<Self> = Vec::new();
        for (key, message, outcome) in plan.rows() {
            let zone = plan.zone_of(message);
            let place = places.entry((message.key.index(), zone.iana_name()));
            let place = *place.or_insert_with(|| {
                rows.push(Self {
                    key,
                    zone,
                    marks: Vec::new(),
                });
                rows.len() - 1
            });
            rows[place].marks.push(Mark {
                id: &message.id,
                zone,
                wanted: message.wanted,
                outcome,
            });
        }
        let all = rows.len();
        if all > MOST_ROWS {
            // The sort is stable, so ties stay in the order of the file.
            rows.sort_by_cached_key(|row| {
                std::cmp::Reverse(row.marks.iter().filter(|mark| mark.is_moved()).count())
            });
            rows.truncate(MOST_ROWS);
        }
        (rows, all)
    }
}

/// Maps times onto the width of the picture.
#[derive(Clone, Copy)]
struct Scale {
    start: Timestamp,
    micros: u64,
}

impl Scale {
    fn new(rows: &[Row<'_>]) -> Self {
        let marks = || rows.iter().flat_map(|row| &row.marks);
        let start = marks().map(|mark| mark.wanted).min().unwrap_or_default();
        let ends = marks().map(|mark| mark.planned().unwrap_or(mark.wanted));
        let end = ends.max().unwrap_or_default();
        let length = end.saturating_duration_since(start).as_micros();
        Self {
            start,
            // At least some seconds, so that the axis has labels.
            micros: u64::try_from(length).unwrap_or(u64::MAX).max(2_000_000),
        }
    }

    fn end(self) -> Timestamp {
        Timestamp::saturating_from_micros(self.start.as_micros().saturating_add(self.micros))
    }

    /// Returns the position of `at`, in hundredths.
    fn x_of(self, at: Timestamp) -> u64 {
        let since = at.saturating_duration_since(self.start).as_micros();
        let width = u128::from((WIDTH - LEFT - RIGHT) * UNIT);
        let x = since * width / u128::from(self.micros);
        LEFT * UNIT + u64::try_from(x).unwrap_or(0)
    }

    /// Returns the position of `at` in whole units: marks that would cover each other are one.
    fn unit(self, at: Timestamp) -> u64 {
        (self.x_of(at) + UNIT / 2) / UNIT
    }
}

/// Writes the section with the picture.
pub(super) fn picture(f: &mut impl Write, plan: &Plan<'_>) -> fmt::Result {
    let (rows, all) = Row::of(plan);
    let has_closed = |quota: &schedule::Quota| quota.closed_times().is_some();
    let closed = match plan.quotas().iter().any(has_closed) {
        true => " <i class=\"closed\"></i> closed",
        false => "",
    };
    writeln!(
        f,
        "<section><h2>Wanted and planned times of each key</h2>\n\
         <p class=\"legend\"><i class=\"d\"></i> wanted, above <i class=\"a\"></i> planned, below \
         <i class=\"over\"></i> refused{closed}</p>",
    )?;
    if all > rows.len() {
        writeln!(
            f,
            "<p>These are the {} lines with the most moved and refused messages, of {}.</p>",
            rows.len(),
            Grouped(u64::try_from(all).unwrap_or(u64::MAX)),
        )?;
    }
    let bottom = u64::try_from(rows.len()).unwrap_or(0) * ROW;
    let label = "Wanted and planned times of each key";
    svg::open(f, WIDTH, bottom + BOTTOM, label)?;
    let scale = Scale::new(&rows);
    let (start, end) = (scale.start, scale.end());
    for (index, row) in (0_u64..).zip(&rows) {
        row.shade(f, index * ROW, scale, plan.quotas())?;
        row.draw(f, index * ROW, scale, plan.has_zones())?;
    }
    let axis = TimeAxis {
        zone: plan.zone(),
        // A label stands at or after the start.
        start: start.as_micros().div_ceil(1_000_000),
        end: seconds(end) + 1,
        least_step: 1,
    };
    axis.draw(f, bottom, LEFT + (WIDTH - LEFT - RIGHT) / 2, |at| {
        let at = Timestamp::saturating_from_micros(at.saturating_mul(1_000_000));
        Length(scale.x_of(at.min(end)))
    })?;
    f.write_str("</svg></section>\n")
}

impl Row<'_> {
    /// Draws the closed times, but for those too short to be seen.
    fn shade(
        &self,
        f: &mut impl Write,
        top: u64,
        scale: Scale,
        quotas: &[schedule::Quota],
    ) -> fmt::Result {
        for span in spans(quotas, self.zone, [scale.start, scale.end()]) {
            let [from, until] = span.map(|at| scale.x_of(at.min(scale.end())));
            let width = until - from;
            if width >= UNIT / 2 {
                let place = [from, top * UNIT, width, ROW * UNIT];
                svg::bar(f, "closed", place.map(Length))?;
            }
        }
        Ok(())
    }

    fn draw(&self, f: &mut impl Write, top: u64, scale: Scale, has_zones: bool) -> fmt::Result {
        let (wanted, planned) = (top + WANTED, top + PLANNED);
        let key = printable(self.key.as_bytes());
        if let (true, Some(zone)) = (has_zones, self.zone.iana_name()) {
            writeln!(
                f,
                "<text class=\"end mid\" x=\"{}\" y=\"{}\">{}</text>",
                LEFT - 16,
                top + PLANNED + 2,
                Escaped(&shortened(zone, SHOWN)),
            )?;
        }
        writeln!(
            f,
            "<g><title>{}</title><text class=\"key end mid\" x=\"{}\" y=\"{}\">{}</text></g>",
            Escaped(&key),
            LEFT - 16,
            top + if has_zones {
                WANTED
            } else {
                (WANTED + PLANNED) / 2
            },
            Escaped(&shortened(&key, SHOWN)),
        )?;
        for y in [wanted, planned] {
            let (x1, x2) = (LEFT - 8, WIDTH - RIGHT + 8);
            write!(
                f,
                "<line class=\"grid\" x1=\"{x1}\" x2=\"{x2}\" y1=\"{y}\" y2=\"{y}\"/>"
            )?;
        }
        let links: BTreeSet<_> = self
            .marks
            .iter()
            .filter_map(|mark| Some((scale.unit(mark.wanted), scale.unit(mark.planned()?))))
            .filter(|(from, to)| from != to)
            .collect();
        let step = links.len().div_ceil(MOST_LINKS).max(1);
        for (from, to) in links.into_iter().step_by(step) {
            write!(
                f,
                "<line class=\"link\" x1=\"{from}\" x2=\"{to}\" y1=\"{wanted}\" y2=\"{planned}\"/>"
            )?;
        }
        f.write_char('\n')?;
        let refused = |mark: &Mark<'_>| {
            if mark.planned().is_none() {
                REFUSED
            } else {
                "d"
            }
        };
        self.dots(f, wanted, |mark| {
            Some((scale.unit(mark.wanted), refused(mark)))
        })?;
        self.dots(f, planned, |mark| Some((scale.unit(mark.planned()?), "a")))
    }

    /// Draws a dot at the height `y` for all marks with the same position and class.
    fn dots(
        &self,
        f: &mut impl Write,
        y: u64,
        dot_of: impl Fn(&Mark<'_>) -> Option<(u64, &'static str)>,
    ) -> fmt::Result {
        let mut dots: BTreeMap<_, (&Mark<'_>, u64)> = BTreeMap::new();
        for mark in &self.marks {
            if let Some(dot) = dot_of(mark) {
                dots.entry(dot).or_insert((mark, 0)).1 += 1;
            }
        }
        for ((x, class), (mark, count)) in dots {
            let more = match count {
                1 => String::new(),
                count => format!(" (and {} more here)", Grouped(count - 1)),
            };
            let radius = if class == REFUSED {
                REFUSED_RADIUS
            } else {
                RADIUS
            };
            write!(
                f,
                "<g><title>{}{more}</title>\
                 <circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/></g>",
                Escaped(&mark.tooltip(self.key)),
            )?;
        }
        f.write_char('\n')
    }
}
