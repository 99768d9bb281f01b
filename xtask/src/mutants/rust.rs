//! The mutants of a Rust file.

use std::collections::BTreeSet;
use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Block, Expr, Lit, Pat, ReturnType, Signature, Stmt, Type, UnOp};

use super::mutant::{Mutant, Mutants};
use super::point::{Alternative, Piece, Point, Shape, Template};

/// The mutants of a file, and where in it they are.
#[derive(Debug)]
pub(super) struct Generated {
    pub(super) points: Vec<Point>,
    pub(super) mutants: Vec<Mutant>,
}

/// Returns the mutants of the file `path`, whose text is `source`.
///
/// The functions in `constant` stay constant: nothing in them can be switched at run time.
pub(super) fn generate(
    path: &str,
    source: &str,
    constant: &BTreeSet<String>,
) -> syn::Result<Generated> {
    let mut generator = Generator {
        source,
        constant,
        scripts: BTreeSet::new(),
        scope: Vec::new(),
        points: Vec::new(),
        mutants: Mutants::of(path, source),
    };
    let file = syn::parse_file(source)?;
    Scripts(&mut generator.scripts).visit_file(&file);
    generator.visit_file(&file);
    let mut points = generator.points;
    // Those of equal ranges stay as they were found, the outer first.
    points.sort_by_key(|point| (point.range.start, usize::MAX - point.range.end));
    Ok(Generated {
        points,
        mutants: generator.mutants.into_vec(),
    })
}

/// Which constants an expression is tried as, beside what its kind asks for.
#[derive(Clone, Copy, Debug, Default)]
struct Constants {
    truth: bool,
    falsehood: bool,
}

impl Constants {
    const BOTH: Self = Self {
        truth: true,
        falsehood: true,
    };
    const NONE: Self = Self {
        truth: false,
        falsehood: false,
    };
    const TRUTH: Self = Self {
        truth: true,
        falsehood: false,
    };
    const FALSEHOOD: Self = Self {
        truth: false,
        falsehood: true,
    };

    fn values(self) -> impl Iterator<Item = &'static str> {
        let truth = self.truth.then_some("true");
        truth.into_iter().chain(self.falsehood.then_some("false"))
    }
}

struct Generator<'t> {
    source: &'t str,
    constant: &'t BTreeSet<String>,
    /// The constants and fields that hold the text of a Lua file.
    scripts: BTreeSet<String>,
    /// The type and the function that are being visited.
    scope: Vec<String>,
    points: Vec<Point>,
    mutants: Mutants,
}

/// The operands of a point, as they are named after they were computed.
const OPERANDS: &str = "(__left, __right)";

impl Generator<'_> {
    /// Adds a point where one of `changes`, which are shown and built in, can be switched on.
    fn switch(
        &mut self,
        range: Range<usize>,
        setup: Option<(Template, &'static str)>,
        original: Template,
        changes: Vec<(String, Template)>,
    ) {
        let shape = Shape::Switch {
            setup,
            original,
            is_statement: false,
        };
        let before = self.source[range.clone()].to_owned();
        self.add(range.clone(), range, shape, &before, changes);
    }

    fn add(
        &mut self,
        range: Range<usize>,
        shown: Range<usize>,
        shape: Shape,
        before: &str,
        changes: Vec<(String, Template)>,
    ) {
        if changes.is_empty() {
            return;
        }
        let scope = self.scope.join("::");
        let alternatives = changes.into_iter().map(|(after, template)| Alternative {
            id: self.mutants.add(shown.start, &scope, before, &after),
            template,
        });
        let alternatives = alternatives.collect();
        self.points.push(Point {
            range,
            shape,
            alternatives,
        });
    }

    /// Adds the constants that stand for all of `expr`, if there are any.
    fn constants(&mut self, expr: &Expr, constants: Constants) {
        let range = range(expr);
        let changes = constants.values().map(constant).collect();
        self.switch(range.clone(), None, source(&range), changes);
    }

    fn shown(&self, range: &Range<usize>) -> &str {
        &self.source[range.clone()]
    }

    fn expr(&mut self, expr: &Expr, constants: Option<Constants>) {
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
                // What is always true would only be waited for.
                self.condition(&repeated.cond, Constants::FALSEHOOD);
                self.visit_block(&repeated.body);
            }
            Expr::Match(matched) => self.arms(matched),
            Expr::Repeat(repeated) => self.expr(&repeated.expr, None),
            Expr::Index(indexed) => {
                // A name may be that of a table, which is not the text of the same name.
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
            // A number that is changed says the same as one that is left out.
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
        let mut changes = Vec::new();
        let is_closure = matches!(call.args.first(), Some(Expr::Closure(_)));
        if is_closure || call.args.is_empty() {
            let Some(other) = counterpart(&name) else {
                return;
            };
            // The type of a closure is told by whom it is given to, so it is not computed before.
            let after = |method: &str| {
                let mut template = text(&format!("__left.{method}"));
                match call.args.first() {
                    None => template.extend(text("()")),
                    Some(closure) => {
                        template.extend(text("("));
                        template.push(Piece::Source(range(closure)));
                        template.extend(text(")"));
                    }
                }
                template
            };
            changes.push((renamed(other), after(other)));
            let setup = (source(&receiver), "mut __left");
            self.switch(whole, Some(setup), after(&name), changes);
            return;
        }
        if call.args.len() != 1 {
            return;
        }
        let argument = range(&call.args[0]);
        let others = counterparts(&name);
        if others.is_empty() {
            return;
        }
        for other in others {
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
            changes.push((shown, text(&after)));
        }
        let setup = vec![
            Piece::Text("(".to_owned()),
            Piece::Source(receiver),
            Piece::Text("), (".to_owned()),
            Piece::Source(argument),
            Piece::Text(")".to_owned()),
        ];
        let original = text(&format!("__left.{name}(__right)"));
        self.switch(whole, Some((setup, OPERANDS)), original, changes);
    }

    /// Has the text of a script chosen when it is used.
    fn script(&mut self, expr: &Expr) {
        let name = match expr {
            Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
            Expr::Field(field) => match &field.member {
                syn::Member::Named(name) => Some(name.to_string()),
                syn::Member::Unnamed(_) => None,
            },
            _ => None,
        };
        if name.is_some_and(|name| self.scripts.contains(&name)) {
            self.points.push(Point {
                range: range(expr),
                shape: Shape::Script,
                alternatives: Vec::new(),
            });
        }
    }

    /// A condition, or the parts of one that holds `let`.
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
            // A constant or a variant is written in capitals.
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

    fn statement(&mut self, statement: &Stmt) {
        let whole = range(statement);
        let is_deleted = match statement {
            Stmt::Expr(Expr::ForLoop(_), _) => true,
            Stmt::Expr(expr, Some(_)) => match expr {
                Expr::Binary(binary) => assigned(&binary.op).is_some(),
                Expr::Assign(_)
                | Expr::Await(_)
                | Expr::Call(_)
                | Expr::MethodCall(_)
                | Expr::Try(_) => true,
                _ => false,
            },
            _ => false,
        };
        if is_deleted {
            let mut changes = vec![(String::new(), Template::new())];
            // A formatter that fails is one that a test would have to write.
            let is_shown = self.scope.last().is_some_and(|name| name == "fmt");
            if let Stmt::Expr(Expr::Try(tried), _) = statement
                && !is_shown
            {
                let inner = range(&tried.expr);
                let mut template = text("let _ = ");
                template.push(Piece::Source(inner.clone()));
                template.extend(text(";"));
                changes.push((format!("let _ = {};", self.shown(&inner)), template));
            }
            let shape = Shape::Switch {
                setup: None,
                original: source(&whole),
                is_statement: true,
            };
            let before = self.shown(&whole).to_owned();
            self.add(whole.clone(), whole, shape, &before, changes);
        }
        visit::visit_stmt(self, statement);
    }

    fn function(&mut self, attributes: &[Attribute], signature: &Signature, block: &Block) {
        let name = signature.ident.to_string();
        if is_left_out(attributes) {
            return;
        }
        if let Some(word) = &signature.constness {
            if self.constant.contains(&name) {
                return;
            }
            self.points.push(Point {
                range: word.span.byte_range(),
                shape: Shape::Remove,
                alternatives: Vec::new(),
            });
        }
        self.scope.push(name.clone());
        let body = range(block);
        self.points.push(Point {
            range: body.clone(),
            shape: Shape::Function,
            alternatives: Vec::new(),
        });
        let tail = match &*block.stmts {
            [Stmt::Expr(tail, None)] => Some(tail),
            _ => None,
        };
        let said = tail.map(|tail| self.shown(&range(tail)).to_owned());
        let returned = returned(&signature.output, block);
        let is_bool = returned.contains(&"true");
        let changes = returned
            .iter()
            .filter(|value| said.as_deref() != Some(**value))
            // It would call itself for ever.
            .filter(|value| name != "default" || !value.contains("default()"))
            .map(|value| {
                let text = format!("return {value}");
                (
                    text.trim_end().to_owned(),
                    vec![Piece::Text(format!("{text};"))],
                )
            });
        let changes = changes.collect();
        let start = body.start + 1;
        let before = format!("fn {name}");
        self.add(
            start..start,
            signature.ident.span().byte_range(),
            Shape::Insert,
            &before,
            changes,
        );
        match (is_bool, tail) {
            // All of the body is replaced by either already.
            (true, Some(tail)) if !matches!(tail, Expr::Lit(_)) => {
                self.expr(tail, Some(Constants::NONE));
            }
            (true, Some(_)) => {}
            (true, None) => {
                if let Some((last, others)) = block.stmts.split_last() {
                    others.iter().for_each(|other| self.statement(other));
                    match last {
                        Stmt::Expr(tail, None) => self.expr(tail, Some(Constants::BOTH)),
                        last => self.statement(last),
                    }
                }
            }
            (false, _) => self.visit_block(block),
        }
        self.scope.pop();
    }
}

impl<'ast> Visit<'ast> for Generator<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_left_out(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function(&function.attrs, &function.sig, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.function(&function.attrs, &function.sig, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.function(&function.attrs, &function.sig, block);
        }
    }

    fn visit_item_impl(&mut self, implementation: &'ast syn::ItemImpl) {
        if is_left_out(&implementation.attrs) {
            return;
        }
        self.scope.push(type_name(&implementation.self_ty));
        for item in &implementation.items {
            self.visit_impl_item(item);
        }
        self.scope.pop();
    }

    fn visit_item_trait(&mut self, declared: &'ast syn::ItemTrait) {
        self.scope.push(declared.ident.to_string());
        for item in &declared.items {
            self.visit_trait_item(item);
        }
        self.scope.pop();
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        self.expr(expr, None);
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        self.statement(statement);
    }

    // What is known before the program runs cannot be switched, and neither can what is no
    // expression.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_item_macro(&mut self, _: &'ast syn::ItemMacro) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_angle_bracketed_generic_arguments(
        &mut self,
        _: &'ast syn::AngleBracketedGenericArguments,
    ) {
    }
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_generics(&mut self, _: &'ast syn::Generics) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_path(&mut self, _: &'ast syn::Path) {}
    fn visit_type(&mut self, _: &'ast Type) {}
}

/// Finds the constants and fields that hold the text of a Lua file.
struct Scripts<'n>(&'n mut BTreeSet<String>);

impl Visit<'_> for Scripts<'_> {
    fn visit_item_const(&mut self, item: &syn::ItemConst) {
        if is_script(&item.expr) {
            self.0.insert(item.ident.to_string());
        }
        visit::visit_item_const(self, item);
    }

    fn visit_field_value(&mut self, field: &syn::FieldValue) {
        if let syn::Member::Named(name) = &field.member
            && is_script(&field.expr)
        {
            self.0.insert(name.to_string());
        }
        visit::visit_field_value(self, field);
    }
}

fn is_script(expr: &Expr) -> bool {
    let Expr::Macro(called) = expr else {
        return false;
    };
    let path = called.mac.parse_body::<syn::LitStr>();
    called.mac.path.is_ident("include_str") && path.is_ok_and(|path| path.value().ends_with(".lua"))
}

/// Returns the bytes of the file that `part` is.
fn range(part: &impl Spanned) -> Range<usize> {
    part.span().byte_range()
}

fn text(text: &str) -> Template {
    vec![Piece::Text(text.to_owned())]
}

fn source(range: &Range<usize>) -> Template {
    vec![Piece::Source(range.clone())]
}

fn with_right(before: &str, right: &Range<usize>) -> Template {
    vec![Piece::Text(before.to_owned()), Piece::Source(right.clone())]
}

fn constant(value: &str) -> (String, Template) {
    (value.to_owned(), text(value))
}

/// Returns the operator as it is written.
fn operator<'t>(source: &'t str, binary: &syn::ExprBinary) -> &'t str {
    &source[range(&binary.op)]
}

/// What a comparison becomes: that of the neighbouring number, or the opposite.
fn compared(operator: &BinOp) -> Option<&'static str> {
    Some(match operator {
        BinOp::Lt(_) => "<=",
        BinOp::Le(_) => "<",
        BinOp::Gt(_) => ">=",
        BinOp::Ge(_) => ">",
        BinOp::Eq(_) => "!=",
        BinOp::Ne(_) => "==",
        _ => return None,
    })
}

/// What `&&` and `||` become, and which constant each side is tried as; the other is tried for all.
fn joined(operator: &BinOp) -> Option<(&'static str, Constants)> {
    match operator {
        BinOp::And(_) => Some(("||", Constants::TRUTH)),
        BinOp::Or(_) => Some(("&&", Constants::FALSEHOOD)),
        _ => None,
    }
}

fn assigned(operator: &BinOp) -> Option<&'static str> {
    Some(match operator {
        BinOp::AddAssign(_) => "-=",
        BinOp::SubAssign(_) | BinOp::MulAssign(_) | BinOp::DivAssign(_) => "+=",
        BinOp::RemAssign(_) => "/=",
        BinOp::BitXorAssign(_) | BinOp::BitAndAssign(_) => "|=",
        BinOp::BitOrAssign(_) => "&=",
        BinOp::ShlAssign(_) => ">>=",
        BinOp::ShrAssign(_) => "<<=",
        _ => return None,
    })
}

fn computed(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Add(_) => &["-"],
        BinOp::Sub(_) => &["+"],
        BinOp::Mul(_) => &["+"],
        BinOp::Div(_) => &["*"],
        BinOp::Rem(_) => &["/"],
        BinOp::BitXor(_) | BinOp::BitAnd(_) => &["|"],
        BinOp::BitOr(_) => &["&"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        _ => &[],
    }
}

/// Returns the method that is called instead of one that takes nothing or a closure.
fn counterpart(method: &str) -> Option<&'static str> {
    Some(match method {
        "all" => "any",
        "any" => "all",
        "first" => "last",
        "last" => "first",
        "is_err" => "is_ok",
        "is_none" => "is_some",
        "is_ok" => "is_err",
        "is_some" => "is_none",
        "max" => "min",
        "max_by_key" => "min_by_key",
        "min" => "max",
        "min_by_key" => "max_by_key",
        "next" => "next_back",
        "pop_back" => "pop_front",
        "pop_front" => "pop_back",
        _ => return None,
    })
}

/// Returns what is done instead of a method that takes a value: another method, an operator, or
/// nothing to either side.
fn counterparts(method: &str) -> &'static [&'static str] {
    match method {
        "checked_add" => &["wrapping_add"],
        "checked_mul" => &["wrapping_mul"],
        "checked_sub" => &["wrapping_sub"],
        "div_ceil" => &["/"],
        "ends_with" => &["starts_with"],
        "max" => &["min", "receiver", "argument"],
        "min" => &["max", "receiver", "argument"],
        "saturating_add" => &["wrapping_add", "receiver"],
        "saturating_mul" => &["wrapping_mul", "receiver"],
        "saturating_sub" => &["wrapping_sub", "receiver"],
        "starts_with" => &["ends_with"],
        "wrapping_add" => &["wrapping_sub", "receiver"],
        "wrapping_mul" => &["wrapping_add", "receiver"],
        "wrapping_sub" => &["wrapping_add", "receiver"],
        _ => &[],
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

/// Adds the parts of a condition that all must hold.
fn conjuncts<'e>(condition: &'e Expr, parts: &mut Vec<&'e Expr>) {
    match condition {
        Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => {
            conjuncts(&binary.left, parts);
            conjuncts(&binary.right, parts);
        }
        part => parts.push(part),
    }
}

/// Returns what a function may return at once, as far as its type tells.
fn returned(output: &ReturnType, block: &Block) -> &'static [&'static str] {
    let ReturnType::Type(_, output) = output else {
        // To leave out the only statement is the same.
        let is_one = matches!(&*block.stmts, [Stmt::Expr(_, Some(_))]);
        return if block.stmts.is_empty() || is_one {
            &[]
        } else {
            &[""]
        };
    };
    let name = type_name(output);
    match &**output {
        Type::Path(_) => match name.as_str() {
            "bool" => &["true", "false"],
            "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i64" | "i32" => &["0", "1"],
            "Option" => &["None", "Some(Default::default())"],
            "Result" => &["Ok(Default::default())"],
            _ => &["Default::default()"],
        },
        Type::Reference(_) if name == "str" => &["\"\""],
        Type::Tuple(_) => &["Default::default()"],
        _ => &[],
    }
}

/// Returns the last name in the path of a type.
fn type_name(named: &Type) -> String {
    match named {
        Type::Path(path) => {
            let last = path.path.segments.last();
            last.map_or_else(String::new, |segment| segment.ident.to_string())
        }
        Type::Reference(reference) => type_name(&reference.elem),
        Type::Slice(slice) => type_name(&slice.elem),
        Type::Array(array) => type_name(&array.elem),
        _ => String::new(),
    }
}

/// Returns whether what has `attributes` is not in the library that is tested.
pub(super) fn is_left_out(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|condition| {
                ["test", "doc", "doctest"]
                    .iter()
                    .any(|name| condition.is_ident(name))
            })
    })
}
