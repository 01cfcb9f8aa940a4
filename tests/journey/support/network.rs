//! Cables that can be cut.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

/// A network of its own for a host, with two cables to ours. Gone when it is dropped.
#[derive(Debug)]
pub(crate) struct Network {
    name: String,
    /// The host's end of either cable.
    pub(crate) addresses: [Ipv4Addr; 2],
}

impl Network {
    /// Needs Linux, root and iproute2; else says what went wrong.
    pub(crate) fn new() -> Result<Self, String> {
        let id = std::process::id();
        let name = format!("ps{id}");
        // 198.18.0.0/15 is for tests (RFC 2544); runs side by side take different parts of it.
        let part = Ipv4Addr::new(198, 18, 0, 0).to_bits() + (id % 16_384) * 8;
        let addresses = [2, 6].map(|place| Ipv4Addr::from_bits(part + place));
        run(&format!("netns add {name}"))?;
        let network = Self { name, addresses };
        network.lay_cables().map(|()| network)
    }

    /// The command that runs a program in it.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// From now on nothing passes on one cable, in either direction.
    pub(crate) fn cut(&self, cable: usize) {
        run(&format!("link set {}{cable} down", self.name)).unwrap();
    }

    fn lay_cables(&self) -> Result<(), String> {
        let name = &self.name;
        for (cable, address) in self.addresses.iter().enumerate() {
            let ours = Ipv4Addr::from_bits(address.to_bits() - 1);
            run(&format!("link add {name}{cable} type veth peer name far{cable} netns {name}"))?;
            run(&format!("addr add {ours}/30 dev {name}{cable}"))?;
            run(&format!("link set {name}{cable} up"))?;
            run(&format!("-n {name} addr add {address}/30 dev far{cable}"))?;
            run(&format!("-n {name} link set far{cable} up"))?;
        }
        Ok(())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for cable in 0..self.addresses.len() {
            let _ = run(&format!("link del {}{cable}", self.name));
        }
        let _ = run(&format!("netns del {}", self.name));
    }
}

fn run(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|error| format!("ip {arguments}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim_end()))
}
