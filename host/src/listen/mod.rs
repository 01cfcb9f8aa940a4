//! Step 1: how a connection comes in: the listening sockets, and who is admitted.

mod admission;
mod claim;
mod config;
mod socket;

pub use admission::{Admission, Permit, Rejected};
pub use config::Config;
pub use socket::{Listener, bind};
