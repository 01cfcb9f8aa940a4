//! What a newcomer sees after the start.

use std::net::SocketAddr;

use crate::config::{Config, Target};

/// One line per thing that is served where.
#[must_use]
pub fn describe(config: &Config, addresses: &[SocketAddr]) -> Vec<String> {
    let mut lines = Vec::new();
    for address in addresses {
        for route in &config.routes {
            let who = match route.target {
                Target::BuiltinEcho => "echo without a plugin",
                Target::Plugin(plugin) => {
                    config.plugins.get(usize::from(plugin.0)).map_or("", |plugin| &plugin.name)
                }
            };
            lines.push(format!("ws://{address}{}  {who}", route.path));
        }
        for files in &config.statics {
            let path = files.path.trim_end_matches('/');
            lines.push(format!("http://{address}{path}/  files of {}", files.dir.display()));
        }
    }
    lines
}
