//! `algorithms!`: generates the code that lists every algorithm.

/// Generates the enum of the algorithms, and all other code that has one part per algorithm. A
/// variant is written `Name(folder) keeps State`, and `if "feature"` after it if it needs a feature of
/// this crate.
///
/// The first token is a dollar sign, for the macro that this macro defines.
macro_rules! algorithms {
    (
        $dollar:tt
        $(#[$about:meta])*
        pub enum Algorithm {
            $($(#[$doc:meta])* $machine:ident($folder:ident) keeps $kept:ty
                $(, if $feature:literal)?;)*
        }
    ) => {
        $($(#[cfg(feature = $feature)])? pub use $folder::$machine;)*

        /// The names of all algorithms, for the root of the crate.
        pub(crate) mod named {
            pub use super::Algorithm;
            $($(#[cfg(feature = $feature)])? pub use super::$machine;)*
        }

        $(#[$about])*
        pub enum Algorithm {
            $($(#[$doc])* $(#[cfg(feature = $feature)])? $machine($machine),)*
        }

        /// The state of any algorithm.
        #[derive(Clone, Debug, Default)]
        enum Kind {
            #[default]
            Vacant,
            $($(#[cfg(feature = $feature)])? $machine($kept),)*
        }

        impl Kind {
            fn heap_bytes(&self) -> usize {
                match self {
                    Self::Vacant => 0,
                    $($(#[cfg(feature = $feature)])? Self::$machine(kept) => Remembered::heap_bytes(kept),)*
                }
            }

            /// Writes all but the kind and the instant, which it returns.
            fn write(&self, to: &mut Writer) -> (u64, u64) {
                match self {
                    Self::Vacant => (0, 0),
                    $($(#[cfg(feature = $feature)])? Self::$machine(kept) => {
                        (<$machine as Machine>::KIND, <$machine as Machine>::write_state(kept, to))
                    })*
                }
            }
        }

        $(
            $(#[cfg(feature = $feature)])?
            impl From<$machine> for Algorithm {
                fn from(machine: $machine) -> Self {
                    Self::$machine(machine)
                }
            }

            $(#[cfg(feature = $feature)])?
            impl Listed for $machine {
                type State = $folder::State;

                #[inline(always)]
                fn view(state: &State) -> Option<&$folder::State> {
                    match &state.0 {
                        Kind::$machine(kept) => Some(kept),
                        _ => None,
                    }
                }

                #[inline(always)]
                fn open(state: &mut State) -> &mut $folder::State {
                    if Self::view(state).is_none() {
                        state.0 = Kind::$machine(Default::default());
                    }
                    match &mut state.0 {
                        Kind::$machine(kept) => kept,
                        _ => unreachable!("put there above"),
                    }
                }

                fn keep(kept: $folder::State) -> State {
                    State(Kind::$machine(kept.into()))
                }
            }
        )*

        /// The text syntax of each algorithm, in the order of the list.
        const SPELLINGS: &[Spelling] = &[$($(#[cfg(feature = $feature)])? Spelling::of::<$machine>()),*];

        /// The script of each algorithm, in the order of the list.
        #[cfg(feature = "__twins")]
        pub const TWINS: [Twin; [$($(#[cfg(feature = $feature)])? stringify!($machine)),*].len()] =
            [$($(#[cfg(feature = $feature)])? Twin::of::<$machine>()),*];

        #[cfg(feature = "__twins")]
        impl Algorithm {
            /// Returns the index of this algorithm in [`TWINS`].
            pub(crate) const fn code(&self) -> usize {
                enum Index {
                    $($(#[cfg(feature = $feature)])? $machine,)*
                }
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$machine(_) => Index::$machine as usize,)*
                }
            }
        }

        /// Evaluates an expression with the machine in an [`Algorithm`].
        macro_rules! with_machine {
            ($dollar algorithm:expr, $dollar machine:ident => $dollar body:expr) => {
                match $dollar algorithm {
                    $($(#[cfg(feature = $feature)])? Algorithm::$machine($dollar machine) => $dollar body,)*
                }
            };
        }
    };
}
pub(super) use algorithms;
