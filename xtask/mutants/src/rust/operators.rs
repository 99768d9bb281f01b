//! The replacements of operators and methods.

use syn::BinOp;

use super::expressions::Constants;

/// Returns the replacement of a comparison: off by one, or its opposite.
pub(super) fn compared(operator: &BinOp) -> Option<&'static str> {
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

/// Returns the replacement of `&&` or `||`, and the constant that each side is replaced by; the
/// other constant already replaces the whole.
pub(super) fn joined(operator: &BinOp) -> Option<(&'static str, Constants)> {
    match operator {
        BinOp::And(_) => Some(("||", Constants::TRUTH)),
        BinOp::Or(_) => Some(("&&", Constants::FALSEHOOD)),
        _ => None,
    }
}

pub(super) fn assigned(operator: &BinOp) -> Option<&'static str> {
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

pub(super) fn computed(operator: &BinOp) -> &'static [&'static str] {
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

/// Returns the replacement of a method without arguments or with a closure.
pub(super) fn counterpart(method: &str) -> Option<&'static str> {
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

/// Returns the replacements of a method with one value: another method, an operator, or only one of
/// both sides.
pub(super) fn counterparts(method: &str) -> &'static [&'static str] {
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
