//! Finds the texts of scripts, which the copy selects at run time.

use std::collections::BTreeSet;

use syn::Expr;
use syn::visit::{self, Visit};

use super::{Generator, range};
use crate::point::{Point, Shape};

impl Generator<'_> {
    /// Makes the copy select the text of a script when it is used.
    pub(super) fn script(&mut self, expr: &Expr) {
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
}

/// Collects the constants and fields that contain the text of a Lua file.
pub(super) struct Scripts<'n>(pub(super) &'n mut BTreeSet<String>);

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
    // Such as `M::SCRIPT`, whose text is in another file.
    if let Expr::Path(path) = expr {
        let segments = &path.path.segments;
        return segments.len() > 1 && segments.last().is_some_and(|last| last.ident == "SCRIPT");
    }
    let Expr::Macro(called) = expr else {
        return false;
    };
    let path = called.mac.parse_body::<syn::LitStr>();
    called.mac.path.is_ident("include_str") && path.is_ok_and(|path| path.value().ends_with(".lua"))
}
