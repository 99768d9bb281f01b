//! The changes to expressions.

use std::ops::Range;

use syn::visit::{self, Visit};
use syn::{BinOp, Expr, Lit, Pat, UnOp};

use super::operators::{assigned, compared, computed, counterpart, counterparts, joined};
use super::{Generator, is_left_out, range, source, text};
use crate::point::{Piece, Shape, Template};

/// The constants to replace an expression by, in addition to its other changes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Constants {
    truth: bool,
    falsehood: bool,
}

impl Constants {
    pub(super) const BOTH: Self = Self {
        truth: true,
        falsehood: true,
    };
    pub(super) const NONE: Self = Self {
        truth: false,
        falsehood: false,
    };
    pub(super) const TRUTH: Self = Self {
        truth: true,
        falsehood: false,
    };
    pub(super) const FALSEHOOD: Self = Self {
        truth: false,
        falsehood: true,
    };

    fn values(self) -> impl Iterator<Item = &'static str> {
        let truth = self.truth.then_some("true");
        truth.into_iter().chain(self.falsehood.then_some("false"))
    }
}

/// The pattern that binds the computed operands of a point.
const OPERANDS: &str = "(__left, __right)";

impl Generator<'_> {
    /// Adds the changes of all of `expr` to constants, if there are any.
    fn constants(&mut self, expr: &Expr, constants: Constants) {
        let range = range(expr);
        let changes = constants.values().map(constant).collect();
        self.switch(range.clone(), None, source(&range), changes);
    }

    pub(super) fn expr(&mut self, expr: &Expr, constants: Option<Constants>) {
        let or_none = constants.unwrap_or(Constants::NONE);
        match expr {
            Expr::Paren(inner) => self.expr(&inner.expr, constants),
            Expr::Group(inner) => self.expr(&inner.expr, constants),
            Expr::Binary(binary) => self.binary(expr, binary, constants),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => {
                if constants.is_some() {
                    self.constants(expr, or_none);
                } else {
                    let operand = range(&unary.expr);
                    let change = (self.shown(&operand).to_owned(), source(&operand));
                    let whole = range(expr);
                    self.switch(whole.clone(), None, source(&whole), vec![change]);
                }
                self.expr(&unary.expr, Some(Constants::NONE));
            }
            Expr::Lit(literal) => self.literal(expr, &literal.lit),
            Expr::MethodCall(call) => {
                self.constants(expr, or_none);
                self.method_call(expr, call);
                self.script(&call.receiver);
                self.expr(&call.receiver, None);
                for argument in &call.args {
                    self.script(argument);
                    self.expr(argument, None);
                }
            }
            Expr::Call(call) => {
                self.constants(expr, or_none);
                call.args.iter().for_each(|argument| self.script(argument));
                let called = self.shown(&range(&call.func));
                if called == "Some" && call.args.len() == 1 {
                    let whole = range(expr);
                    let change = ("None".to_owned(), text("None"));
                    self.switch(whole.clone(), None, source(&whole), vec![change]);
                }
                visit::visit_expr(self, expr);
            }
            Expr::If(conditional) => {
                self.condition(&conditional.cond, Constants::BOTH);
                self.visit_block(&conditional.then_branch);
                if let Some((_, otherwise)) = &conditional.else_branch {
                    self.expr(otherwise, None);
                }
            }
            Expr::While(repeated) => {
                // A loop that never ends would only time out.
                self.condition(&repeated.cond, Constants::FALSEHOOD);
                self.visit_block(&repeated.body);
            }
            Expr::Match(matched) => self.arms(matched),
            Expr::Repeat(repeated) => self.expr(&repeated.expr, None),
            Expr::Array(array) => {
                array.elems.iter().for_each(|element| self.script(element));
                visit::visit_expr(self, expr);
            }
            Expr::Index(indexed) => {
                // A name may refer to a table, which is not the script of the same name.
                if matches!(*indexed.expr, Expr::Field(_)) {
                    self.script(&indexed.expr);
                }
                self.constants(expr, or_none);
                visit::visit_expr(self, expr);
            }
            Expr::Const(_) | Expr::Path(_) | Expr::Macro(_) => self.constants(expr, or_none),
            _ => {
                self.constants(expr, or_none);
                visit::visit_expr(self, expr);
            }
        }
    }

    fn binary(&mut self, expr: &Expr, binary: &syn::ExprBinary, constants: Option<Constants>) {
        let whole = range(expr);
        let (left, right) = (range(&binary.left), range(&binary.right));
        let between = |operator: &str| {
            let (left, right) = (&self.source[left.clone()], &self.source[right.clone()]);
            format!("{left} {operator} {right}")
        };
        let operator = operator(self.source, binary);
        let operands = |before: &str| {
            let mut template = text(before);
            template.push(Piece::Source(left.clone()));
            template.extend(text(&format!("), {before}")));
            template.push(Piece::Source(right.clone()));
            template.extend(text(")"));
            template
        };
        if let Some(replaced) = compared(&binary.op) {
            let constants = constants.unwrap_or(Constants::BOTH);
            let mut changes = vec![(
                between(replaced),
                text(&format!("__left {replaced} __right")),
            )];
            changes.extend(constants.values().map(constant));
            let setup = (operands("&("), OPERANDS);
            let original = text(&format!("__left {operator} __right"));
            self.switch(whole, Some(setup), original, changes);
            self.expr(&binary.left, None);
            self.expr(&binary.right, None);
        } else if let Some((replaced, inner)) = joined(&binary.op) {
            let constants = constants.unwrap_or(Constants::BOTH);
            let mut changes = vec![(
                between(replaced),
                with_right(&format!("__left {replaced} "), &right),
            )];
            changes.extend(constants.values().map(constant));
            let setup = (source(&left), "__left");
            let original = with_right(&format!("__left {operator} "), &right);
            self.switch(whole, Some(setup), original, changes);
            self.expr(&binary.left, Some(inner));
            self.expr(&binary.right, Some(inner));
        } else if let Some(replaced) = assigned(&binary.op) {
            let assign = |operator: &str| {
                let mut template = source(&left);
                template.extend(text(&format!(" {operator} __right")));
                template
            };
            let changes = vec![(between(replaced), assign(replaced))];
            let setup = (source(&right), "__right");
            self.switch(whole, Some(setup), assign(operator), changes);
            self.expr(&binary.left, None);
            self.expr(&binary.right, None);
        } else {
            let mut changes: Vec<_> = computed(&binary.op)
                .iter()
                .map(|replaced| {
                    let after = text(&format!("__left {replaced} __right"));
                    (between(replaced), after)
                })
                .collect();
            // Changes to the number itself already cover leaving it out.
            if !is_number(&binary.right) {
                changes.push((self.shown(&left).to_owned(), text("__left")));
            }
            let original = text(&format!("__left {operator} __right"));
            self.switch(whole, Some((operands("("), OPERANDS)), original, changes);
            self.expr(&binary.left, None);
            self.expr(&binary.right, None);
        }
    }

    fn literal(&mut self, expr: &Expr, literal: &Lit) {
        let changes: Vec<String> = match literal {
            Lit::Int(number) => {
                let Ok(value) = number.base10_parse::<u64>() else {
                    return;
                };
                let suffix = number.suffix();
                let less = value.checked_sub(1);
                let near = [value.checked_add(1), less].into_iter().flatten();
                near.map(|near| format!("{near}{suffix}")).collect()
            }
            Lit::Bool(value) => vec![(!value.value).to_string()],
            _ => return,
        };
        let whole = range(expr);
        let changes = changes.into_iter().map(|after| {
            let template = text(&after);
            (after, template)
        });
        self.switch(whole.clone(), None, source(&whole), changes.collect());
    }

    fn method_call(&mut self, expr: &Expr, call: &syn::ExprMethodCall) {
        let name = call.method.to_string();
        let (whole, receiver) = (range(expr), range(&call.receiver));
        if call.turbofish.is_some() {
            return;
        }
        let before = self.shown(&receiver).to_owned();
        let arguments = &self.source[receiver.end..whole.end];
        let arguments = &arguments[arguments.find('(').unwrap_or(0)..];
        let renamed = |to: &str| format!("{before}.{to}{arguments}");
        // A named receiver is not computed in advance, because that would move it.
        let is_place = is_place(&call.receiver);
        let with_left = |after: &str| match after.split_once("__left") {
            Some((start, end)) if is_place => vec![
                Piece::Text(start.to_owned()),
                Piece::Source(receiver.clone()),
                Piece::Text(end.to_owned()),
            ],
            _ => text(after),
        };
        let is_closure = matches!(call.args.first(), Some(Expr::Closure(_)));
        if is_closure || call.args.is_empty() {
            let Some(other) = counterpart(&name) else {
                return;
            };
            // The type of a closure is inferred from where it is passed, so it is not computed in
            // advance.
            let after = |method: &str| {
                let mut template = with_left(&format!("__left.{method}("));
                template.extend(call.args.first().map(|of| Piece::Source(range(of))));
                template.extend(text(")"));
                template
            };
            let changes = vec![(renamed(other), after(other))];
            let setup = (!is_place).then(|| (source(&receiver), "mut __left"));
            self.switch(whole, setup, after(&name), changes);
            return;
        }
        let others = counterparts(&name);
        if call.args.len() != 1 || others.is_empty() {
            return;
        }
        let argument = range(&call.args[0]);
        let changes = others.iter().map(|other| {
            let (shown, after) = match *other {
                "receiver" => (before.clone(), "__left".to_owned()),
                "argument" => (self.shown(&argument).to_owned(), "__right".to_owned()),
                operator if !operator.starts_with(|c: char| c.is_ascii_lowercase()) => {
                    let shown = format!("{before} {operator} {}", self.shown(&argument));
                    (shown, format!("__left {operator} __right"))
                }
                method if name.starts_with("checked_") => (
                    format!("Some({})", renamed(method)),
                    format!("Some(__left.{method}(__right))"),
                ),
                method => (renamed(method), format!("__left.{method}(__right)")),
            };
            (shown, with_left(&after))
        });
        let changes = changes.collect();
        let original = with_left(&format!("__left.{name}(__right)"));
        let setup = if is_place {
            (source(&argument), "__right")
        } else {
            let both = vec![
                Piece::Text("(".to_owned()),
                Piece::Source(receiver.clone()),
                Piece::Text("), (".to_owned()),
                Piece::Source(argument),
                Piece::Text(")".to_owned()),
            ];
            (both, OPERANDS)
        };
        self.switch(whole, Some(setup), original, changes);
    }

    /// Changes a condition, or the parts of one that contains `let`.
    fn condition(&mut self, condition: &Expr, constants: Constants) {
        if !holds_let(condition) {
            return self.expr(condition, Some(constants));
        }
        let mut parts = Vec::new();
        conjuncts(condition, &mut parts);
        let whole = range(condition);
        let before = self.source[whole.clone()].to_owned();
        let changes = vec![constant("false")];
        let shape = Shape::Append("&&");
        self.add(whole.clone(), whole, shape, &before, changes);
        for part in parts {
            match part {
                Expr::Let(bound) => self.expr(&bound.expr, None),
                part => self.expr(part, Some(Constants::TRUTH)),
            }
        }
    }

    fn arms(&mut self, matched: &syn::ExprMatch) {
        self.expr(&matched.expr, None);
        let ends_in_all = matched.arms.last().is_some_and(|arm| match &arm.pat {
            Pat::Wild(_) => true,
            // Constants and variants start with a capital letter.
            Pat::Ident(bound) => bound.ident.to_string().starts_with(char::is_lowercase),
            _ => false,
        });
        let last = matched.arms.len().saturating_sub(1);
        for (index, arm) in matched.arms.iter().enumerate() {
            if is_left_out(&arm.attrs) {
                continue;
            }
            match &arm.pat {
                Pat::Guard(guarded) => self.condition(&guarded.guard, Constants::BOTH),
                pattern if ends_in_all && index < last => {
                    let whole = range(pattern);
                    let before = format!("{} =>", self.shown(&whole));
                    let changes = vec![("left out".to_owned(), Template::new())];
                    self.add(whole.clone(), whole, Shape::Append("if"), &before, changes);
                }
                _ => {}
            }
            self.expr(&arm.body, None);
        }
    }
}

fn with_right(before: &str, right: &Range<usize>) -> Template {
    vec![Piece::Text(before.to_owned()), Piece::Source(right.clone())]
}

fn constant(value: &str) -> (String, Template) {
    (value.to_owned(), text(value))
}

/// Returns the operator's source text.
fn operator<'t>(source: &'t str, binary: &syn::ExprBinary) -> &'t str {
    &source[range(&binary.op)]
}

/// Returns whether `expr` names a value, such as `a` or `self.b.c`.
fn is_place(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) => true,
        Expr::Field(field) => is_place(&field.base),
        _ => false,
    }
}

fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(literal) => matches!(literal.lit, Lit::Int(_)),
        Expr::Paren(inner) => is_number(&inner.expr),
        _ => false,
    }
}

fn holds_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => {
            holds_let(&binary.left) || holds_let(&binary.right)
        }
        _ => false,
    }
}

/// Splits a condition at `&&`.
fn conjuncts<'e>(condition: &'e Expr, parts: &mut Vec<&'e Expr>) {
    match condition {
        Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => {
            conjuncts(&binary.left, parts);
            conjuncts(&binary.right, parts);
        }
        part => parts.push(part),
    }
}
