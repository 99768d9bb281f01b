//! `Point`: a place that can be changed, and rendering a file with all changes built in.

use std::collections::BTreeSet;
use std::ops::Range;

/// A place in a source file, with its possible changes.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// The byte range that is replaced.
    pub(super) range: Range<usize>,
    pub(super) shape: Shape,
    pub(super) alternatives: Vec<Alternative>,
}

/// How the changes of a place are built in.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// An expression or a statement: runs the active change, or else the original.
    Switch {
        /// An expression that is computed once for all of them, and the pattern that binds it.
        setup: Option<(Template, &'static str)>,
        original: Template,
        is_statement: bool,
    },
    /// At the start of a function body: runs each change that is active.
    Insert,
    /// A condition after the original, which is false if the change is active.
    Append(&'static str),
    /// The word `const` before a function, which is removed because a `const` function cannot read
    /// the switch.
    Remove,
    /// The text of a script, which is selected when it is used.
    Script,
    /// A function, to which errors outside of other points are attributed.
    Function,
}

/// One change: its mutant's id and the replacement.
#[derive(Clone, Debug)]
pub(super) struct Alternative {
    pub(super) id: u64,
    pub(super) template: Template,
}

/// Text mixed with ranges of the source, which may contain other points.
pub(super) type Template = Vec<Piece>;

#[derive(Clone, Debug)]
pub(super) enum Piece {
    Text(String),
    Source(Range<usize>),
}

/// What a range of the rendered text contains.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Region {
    /// The point with this index.
    Point(usize),
    /// The replacement of one mutant.
    Alternative(u64),
}

/// A source file with all mutants built in, except for dropped ones.
#[derive(Debug)]
pub(super) struct Rendered {
    pub(super) text: String,
    pub(super) regions: Vec<(Range<usize>, Region)>,
}

/// Renders `source` with `points`, which must be sorted by start, outer ones first.
///
/// `switch` is the path of the function that returns whether a mutant is active.
pub(super) fn render(
    source: &str,
    points: &[Point],
    switch: &str,
    dropped: &BTreeSet<u64>,
) -> Rendered {
    let mut renderer = Renderer {
        source,
        points,
        switch,
        dropped,
        rendered: Rendered {
            text: String::with_capacity(source.len() * 4),
            regions: Vec::new(),
        },
    };
    renderer.source(0..source.len(), 0);
    renderer.rendered
}

struct Renderer<'a> {
    source: &'a str,
    points: &'a [Point],
    switch: &'a str,
    dropped: &'a BTreeSet<u64>,
    rendered: Rendered,
}

impl<'a> Renderer<'a> {
    /// Writes a range of the source, with those points in it whose index is at least `first`.
    fn source(&mut self, range: Range<usize>, first: usize) {
        let mut at = range.start;
        for index in first..self.points.len() {
            let point = &self.points[index];
            if point.range.start > range.end {
                break;
            }
            // A point inside another has been written with it.
            if point.range.start < at || point.range.end > range.end {
                continue;
            }
            self.text(&self.source[at..point.range.start]);
            let start = self.rendered.text.len();
            self.point(index);
            let end = self.rendered.text.len();
            let regions = &mut self.rendered.regions;
            regions.push((start..end, Region::Point(index)));
            at = point.range.end;
        }
        self.text(&self.source[at..range.end]);
    }

    fn point(&mut self, index: usize) {
        let points = self.points;
        let point = &points[index];
        let dropped = self.dropped;
        let living = || {
            let all = point.alternatives.iter();
            all.filter(|alternative| !dropped.contains(&alternative.id))
        };
        match &point.shape {
            Shape::Remove => {}
            Shape::Script => {
                // Beside the function that says whether a mutant is on.
                let beside = self.switch.trim_end_matches("on");
                self.text(&format!("{beside}text("));
                self.source(point.range.clone(), index + 1);
                self.text(")");
            }
            Shape::Function => self.source(point.range.clone(), index + 1),
            Shape::Switch { .. } | Shape::Append(_) if living().next().is_none() => {
                self.source(point.range.clone(), index + 1);
            }
            Shape::Insert => {
                for alternative in living() {
                    self.condition(alternative.id);
                    self.alternative(alternative, index);
                }
            }
            Shape::Append(word) => {
                self.source(point.range.clone(), index + 1);
                for alternative in living() {
                    let test = format!(" {word} !{}({})", self.switch, alternative.id);
                    self.marked(alternative.id, |renderer| renderer.text(&test));
                }
            }
            Shape::Switch {
                setup,
                original,
                is_statement,
            } => {
                if !is_statement {
                    self.text("(");
                }
                if let Some((template, pattern)) = setup {
                    self.text("match (");
                    self.template(template, index);
                    self.text(&format!(") {{ {pattern} => "));
                }
                for alternative in living() {
                    self.condition(alternative.id);
                    self.alternative(alternative, index);
                    self.text("else ");
                }
                self.text("{ ");
                self.template(original, index);
                self.text(" }");
                if setup.is_some() {
                    self.text(" }");
                }
                if !is_statement {
                    self.text(")");
                }
            }
        }
    }

    fn condition(&mut self, id: u64) {
        let text = format!("if {}({id}) ", self.switch);
        self.text(&text);
    }

    fn alternative(&mut self, alternative: &Alternative, index: usize) {
        self.marked(alternative.id, |renderer| {
            renderer.text("{ ");
            renderer.template(&alternative.template, index);
            renderer.text(" } ");
        });
    }

    fn marked(&mut self, id: u64, write: impl FnOnce(&mut Self)) {
        let start = self.rendered.text.len();
        write(self);
        let end = self.rendered.text.len();
        let regions = &mut self.rendered.regions;
        regions.push((start..end, Region::Alternative(id)));
    }

    fn template(&mut self, template: &[Piece], index: usize) {
        for piece in template {
            match piece {
                Piece::Text(text) => self.text(text),
                Piece::Source(range) => self.source(range.clone(), index + 1),
            }
        }
    }

    fn text(&mut self, text: &str) {
        self.rendered.text.push_str(text);
    }
}
