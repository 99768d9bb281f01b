//! The places of a source file that can be changed, and the file with all changes built in.

use std::collections::BTreeSet;
use std::ops::Range;

/// A place in a source file, and what can stand there.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// The bytes of the file that are replaced.
    pub(super) range: Range<usize>,
    pub(super) shape: Shape,
    pub(super) alternatives: Vec<Alternative>,
}

/// How the alternatives of a place are written.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// An expression or a statement: one of the alternatives, or else the original.
    Switch {
        /// What is computed once for all of them, and the pattern that names it.
        setup: Option<(Template, &'static str)>,
        original: Template,
        is_statement: bool,
    },
    /// The first thing in a body: each alternative is run if it is switched on.
    Insert,
    /// A condition after the original, which does not hold if the alternative is switched on.
    Append(&'static str),
    /// The word `const` before a function, which then may not ask what is switched on.
    Remove,
    /// The text of a script, which is chosen when it is used.
    Script,
    /// A function; it says where an error is that belongs to no other point.
    Function,
}

/// One change: the number of its mutant, and what it makes of the place.
#[derive(Clone, Debug)]
pub(super) struct Alternative {
    pub(super) id: u64,
    pub(super) template: Template,
}

/// Text, with parts of the source in between, in which there may be other points.
pub(super) type Template = Vec<Piece>;

#[derive(Clone, Debug)]
pub(super) enum Piece {
    Text(String),
    Source(Range<usize>),
}

/// What a range of the rendered text is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Region {
    /// The point of this index.
    Point(usize),
    /// What one mutant makes of its place.
    Alternative(u64),
}

/// A source file with every mutant that is not dropped built in.
#[derive(Debug)]
pub(super) struct Rendered {
    pub(super) text: String,
    pub(super) regions: Vec<(Range<usize>, Region)>,
}

/// Renders `source` with `points`, which are ordered by where they start, the outer first.
///
/// `switch` is the path of the function that says which mutant is switched on.
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
    /// Writes a part of the source, and of the points in it those from `first` on.
    fn source(&mut self, range: Range<usize>, first: usize) {
        let mut at = range.start;
        for index in first..self.points.len() {
            let point = &self.points[index];
            if point.range.start > range.end {
                break;
            }
            // What is inside of another point has been written with it.
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
                self.text("crate::__mutants::text(");
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
