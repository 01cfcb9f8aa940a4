//! The simulation's code, without its tests, for the fuzz targets.

#[path = "../../sim/choices.rs"]
mod choices;
#[path = "../../sim/endpoint.rs"]
mod endpoint;
#[path = "../../sim/inflate.rs"]
mod inflate;
#[path = "../../sim/pipe.rs"]
mod pipe;
#[path = "../../sim/reference.rs"]
mod reference;
#[path = "../../sim/replay.rs"]
mod replay;
#[path = "../../sim/sender.rs"]
mod sender;
#[path = "../../sim/terms.rs"]
mod terms;
#[path = "../../sim/traffic.rs"]
mod traffic;
#[path = "../../sim/world.rs"]
mod world;

/// Frames for one machine.
pub fn frames(input: &[u8]) {
    replay::frames(input);
}

/// A request's head for the server's side of the handshake.
pub fn handshake(input: &[u8]) {
    replay::handshake(input);
}

/// Two compressed messages for one machine.
pub fn inflate(input: &[u8]) {
    replay::inflate(input);
}

/// A response's head for the client's side of the handshake.
pub fn response(input: &[u8]) {
    replay::response(input);
}

/// A whole connection.
pub fn whole(input: &[u8]) {
    replay::whole(input);
}
