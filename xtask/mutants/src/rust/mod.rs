//! Generates the mutants of a Rust file.

mod expressions;
mod operators;
mod scripts;

use std::collections::BTreeSet;

use std::ops::Range;

use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, Expr, Meta, Pat, ReturnType, Signature, Stmt, Token, Type};

use self::expressions::Constants;
use self::operators::assigned;
use self::scripts::Scripts;
use super::mutant::{Mutant, Mutants};
use super::point::{Alternative, Piece, Point, Shape, Template};

/// The mutants of a file, and the points at which they are built in.
#[derive(Debug)]
pub(super) struct Generated {
    pub(super) points: Vec<Point>,
    pub(super) mutants: Vec<Mutant>,
}

/// Returns the mutants of the file `path` with the text `source`.
///
/// The functions in `constant` stay `const`, so nothing in them can be switched at run time.
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
    // The sort is stable: of equal ranges, the outer point stays first.
    points.sort_by_key(|point| (point.range.start, usize::MAX - point.range.end));
    Ok(Generated {
        points,
        mutants: generator.mutants.into_vec(),
    })
}

struct Generator<'t> {
    source: &'t str,
    constant: &'t BTreeSet<String>,
    /// The constants and fields that contain the text of a Lua file.
    scripts: BTreeSet<String>,
    /// The type and the function being visited.
    scope: Vec<String>,
    points: Vec<Point>,
    mutants: Mutants,
}

impl Generator<'_> {
    /// Adds a point with `changes`; each is a pair of the text to show and the template to build
    /// in.
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

    fn shown(&self, range: &Range<usize>) -> &str {
        &self.source[range.clone()]
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
            // Testing errors of a formatter would require writing a failing one.
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
            // This would recurse forever.
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
            // The changes above already replace the whole body by constants.
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

    // Constants and items cannot be switched at run time, and the others are not expressions.
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

/// Returns the byte range of `part` in the file.
fn range(part: &impl Spanned) -> Range<usize> {
    part.span().byte_range()
}

fn text(text: &str) -> Template {
    vec![Piece::Text(text.to_owned())]
}

fn source(range: &Range<usize>) -> Template {
    vec![Piece::Source(range.clone())]
}

/// Returns the values that a function can return at once, judging by its return type.
fn returned(output: &ReturnType, block: &Block) -> &'static [&'static str] {
    let ReturnType::Type(_, output) = output else {
        // Deleting the only statement is the same change.
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

/// Returns the last segment of a type's path.
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

/// Returns whether `attributes` exclude their item from the tested library.
pub(super) fn is_left_out(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let Meta::List(list) = &attribute.meta else {
            return false;
        };
        let condition = list.tokens.to_string();
        // Code for systems other than Linux is not built here.
        let is_for_others = condition.starts_with("not") && condition.contains("target_os");
        let is_for_tests = || list.parse_args().is_ok_and(|of| is_for_tests(&of));
        list.path.is_ident("cfg") && (is_for_others || is_for_tests())
    })
}

/// Returns whether `condition` holds only in tests or documentation: `test`, or `all` of it and
/// others.
fn is_for_tests(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => ["test", "doc", "doctest"]
            .iter()
            .any(|name| path.is_ident(name)),
        Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            .is_ok_and(|all| all.iter().any(is_for_tests)),
        _ => false,
    }
}
