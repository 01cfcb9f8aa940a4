//! The journey of a message from end to end: real sockets, real plugins, real clients. A module
//! per step, in the order in which a message travels.
//!
//! Needs `make plugins guests`, and for the tests that start the program `cargo build -p plugsock`.

#[cfg(test)]
mod support;

#[cfg(test)]
mod listen;

#[cfg(test)]
mod conn;

#[cfg(test)]
mod inbound;

#[cfg(test)]
mod worker;

#[cfg(test)]
mod computing;

#[cfg(test)]
mod outbound;

#[cfg(test)]
mod backpressure;

#[cfg(test)]
mod statics;

#[cfg(test)]
mod stop;

#[cfg(test)]
mod cli;
