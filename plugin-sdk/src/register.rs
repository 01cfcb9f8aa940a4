//! What [`register!`](crate::register!) expands to. Not part of the API.

#[cfg(target_arch = "wasm32")]
use crate::bindings::{lifecycle, plugin};
#[cfg(target_arch = "wasm32")]
use crate::{Close, Connection, Message};
use crate::{Lifecycle, Plugin};

/// Makes a type the plugin of this component: `register!(Echo);`. Optional exports are named
/// like bounds: `register!(Echo: Lifecycle);`. The component exports only what is named, and the
/// host calls only what it finds.
///
/// Use it once, in the crate that is built as a `cdylib`. On targets other than WebAssembly it
/// checks the types and exports nothing. Without it the component exports nothing either, and the
/// host refuses to load it.
///
/// [`Lifecycle`] is the only optional export:
///
/// ```
/// # use plugsock_plugin::{Lifecycle, Plugin, register};
/// # #[derive(Default)]
/// # struct Echo;
/// # impl Plugin for Echo {}
/// impl Lifecycle for Echo {}
///
/// register!(Echo: Lifecycle);
/// ```
///
/// Any other name is an error that says so:
///
/// ```compile_fail
/// # use plugsock_plugin::{Lifecycle, Plugin, register};
/// # #[derive(Default)]
/// # struct Echo;
/// # impl Plugin for Echo {}
/// impl Lifecycle for Echo {}
///
/// register!(Echo: Lifecicle); // `Lifecicle` is no optional export; there is: `Lifecycle`
/// ```
#[macro_export]
macro_rules! register {
    ($plugin:ty) => {
        $crate::register!($plugin: Plugin);
    };
    ($plugin:ty: $export:ident $(+ $more:ident)*) => {
        const _: () = {
            ::std::thread_local! {
                static INSTANCE: ::std::cell::RefCell<$plugin> = ::std::default::Default::default();
            }

            impl $crate::register::Registered for $plugin {
                fn with<R>(call: impl ::std::ops::FnOnce(&mut Self) -> R) -> R {
                    INSTANCE.with_borrow_mut(call)
                }
            }

            #[cfg(target_arch = "wasm32")]
            type Glue = $crate::register::Glue<$plugin>;
            $crate::__plugsock_export!(Handler $plugin);
            $crate::__plugsock_export!($export $plugin);
            $($crate::__plugsock_export!($more $plugin);)*
        };
    };
    ($($other:tt)*) => {
        ::std::compile_error!(
            "write `register!(YourType);`, or `register!(YourType: Lifecycle);` with an optional \
             export"
        );
    };
}

/// One export; a name that is not listed here is a compile error.
#[doc(hidden)]
#[macro_export]
macro_rules! __plugsock_export {
    (Handler $plugin:ty) => {
        #[cfg(target_arch = "wasm32")]
        $crate::bindings::plugin::export_handler!(Glue with_types_in $crate::bindings::plugin);
        const _: fn() = $crate::register::is_plugin::<$plugin>;
    };
    // What every plugin has anyway.
    (Plugin $plugin:ty) => {};
    (Lifecycle $plugin:ty) => {
        #[cfg(target_arch = "wasm32")]
        $crate::bindings::lifecycle::export_lifecycle!(
            Glue with_types_in $crate::bindings::lifecycle
        );
        const _: fn() = $crate::register::is_lifecycle::<$plugin>;
    };
    ($other:ident $plugin:ty) => {
        ::std::compile_error!(::std::concat!(
            "`",
            ::std::stringify!($other),
            "` is no optional export; there is: `Lifecycle`"
        ));
    };
}

/// A plugin whose one instance lives in a thread-local. A guest has one thread and the component
/// model never re-enters it, so the instance is never borrowed twice.
pub trait Registered: Plugin {
    /// Runs a call on the instance, which the first call makes.
    fn with<R>(call: impl FnOnce(&mut Self) -> R) -> R;
}

/// Compiles where `P` can be a plugin.
pub fn is_plugin<P: Plugin>() {}

/// Compiles where `P` can export `lifecycle`.
pub fn is_lifecycle<P: Lifecycle>() {}

/// Implements the generated export traits for a plugin.
#[cfg(target_arch = "wasm32")]
#[derive(Debug)]
pub struct Glue<P>(std::marker::PhantomData<P>);

#[cfg(target_arch = "wasm32")]
impl<P: Registered> plugin::exports::plugsock::plugin::handler::Guest for Glue<P> {
    fn on_open(conn: u64) {
        P::with(|plugin| plugin.on_open(Connection::from_id(conn)));
    }

    fn on_message(conn: u64, message: plugin::plugsock::plugin::types::MessageResult) {
        use plugin::plugsock::plugin::types::MessageResult;
        let message = match message {
            MessageResult::Text(text) => Message::Text(text),
            MessageResult::Binary(bytes) => Message::Binary(bytes),
        };
        P::with(|plugin| plugin.on_message(Connection::from_id(conn), message));
    }

    fn on_close(conn: u64, close: plugin::plugsock::plugin::types::CloseFrame) {
        let close = Close::new(close.code, close.reason);
        P::with(|plugin| plugin.on_close(Connection::from_id(conn), close));
    }
}

#[cfg(target_arch = "wasm32")]
impl<P: Registered + Lifecycle> lifecycle::exports::plugsock::plugin::lifecycle::Guest for Glue<P> {
    fn init() -> Result<(), String> {
        P::with(|plugin| plugin.init().map_err(|error| error.to_string()))
    }

    fn healthy() -> Result<(), String> {
        P::with(|plugin| plugin.healthy().map_err(|error| error.to_string()))
    }
}
