//! What wit-bindgen makes of `wit/`: one module per set of exports, since a component must have
//! exactly the exports that its plugin registers. Only `host` and `register` name it.
#![allow(unsafe_code, reason = "the canonical ABI passes raw pointers")]
#![allow(missing_docs, unreachable_pub, reason = "generated")]

/// The imports and the export `handler`.
pub mod plugin {
    wit_bindgen::generate!({
        path: "../wit",
        world: "plugin",
        ownership: Borrowing { duplicate_if_necessary: true },
        pub_export_macro: true,
        export_macro_name: "export_handler",
    });
}

/// The export `lifecycle`.
pub mod lifecycle {
    wit_bindgen::generate!({
        path: "../wit",
        inline: "
            package plugsock:sdk;
            world lifecycle {
                export plugsock:plugin/lifecycle@0.1.0;
            }
        ",
        world: "plugsock:sdk/lifecycle",
        ownership: Borrowing { duplicate_if_necessary: true },
        pub_export_macro: true,
        export_macro_name: "export_lifecycle",
    });
}
