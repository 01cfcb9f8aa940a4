mod derived;
mod documents;
mod limits;
mod overriding;
mod values;

use std::fs;

use super::field::Field;
use super::keys::SECTIONS;
use super::*;
use crate::conn::SlowConsumer;

/// Puts a file beside an empty `chat.wasm` and a directory `public`, and loads it.
fn load_with(text: &str, sources: Sources<'_>) -> Result<Loaded, Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plugsock.toml");
    fs::write(&path, text).unwrap();
    fs::write(dir.path().join("chat.wasm"), "").unwrap();
    fs::create_dir(dir.path().join("public")).unwrap();
    let prefix = format!("{}/", dir.path().display());
    load(&Sources { file: Some(&path), ..sources }).map_err(|problems| {
        problems.iter().map(|problem| problem.to_string().replace(&prefix, "")).collect()
    })
}

fn good(text: &str) -> Config {
    load_with(text, Sources::default()).unwrap().config
}

fn problems(text: &str) -> Vec<String> {
    load_with(text, Sources::default()).unwrap_err()
}

#[track_caller]
fn assert_problem(text: &str, expected: &str) {
    assert_eq!(problems(text), [expected], "{text}");
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

#[test]
fn a_whole_file() {
    let config = good(
        r#"
        [server]
        listen = ["[::1]:9000", "0.0.0.0:9001"]
        shards = 3
        allowed_origins = ["https://example.org", "http://localhost:3000", "null"]
        drain_timeout = "2m"
        [workers]
        threads = 2
        queue_bytes = 33_554_432
        [limits]
        slow_consumer = "drop-oldest"
        max_frame_size = "1KiB"
        [heartbeat]
        enabled = false
        [log]
        format = "json"
        level = "warn,plugsock::conn=debug"
        [[plugin]]
        name = "chat"
        source = "chat.wasm"
        instances = "single"
        on_failure = "drop"
        [[route]]
        path = "/chat"
        plugin = "chat"
        subprotocols = ["b", "a"]
        require_subprotocol = true
        [[route]]
        path = "/echo"
        builtin = "echo"
        [[static]]
        path = "/assets/"
        dir = "public"
        "#,
    );
    assert_eq!(config.listen.addresses[1], "0.0.0.0:9001".parse().unwrap());
    assert_eq!(config.server, Server { shards: 3, drain_timeout: Duration::from_secs(120) });
    assert_eq!(config.conn.allowed_origins.len(), 3);
    assert_eq!((config.workers.threads, config.workers.pool_size), (2, 8));
    assert_eq!((config.plugin.handlers, config.plugin.plugins), (8 + 2 * 3, 1));
    assert_eq!(config.inbound.queue_bytes, 32 << 20);
    assert_eq!(config.conn.slow_consumer, SlowConsumer::DropOldest);
    assert_eq!((config.conn.max_frame_size, config.conn.max_message_size), (1 << 10, 4 << 20));
    assert_eq!(config.conn.heartbeat, None);
    assert_eq!(config.log.format, Format::Json);
    let [plugin] = &config.plugins[..] else { panic!("{:?}", config.plugins) };
    assert_eq!((plugin.instances, plugin.on_failure), (Instances::Single, OnFailure::Drop));
    let Source::File(source) = &plugin.source else { panic!("{plugin:?}") };
    assert!(source.is_absolute() && source.ends_with("chat.wasm"), "beside the file: {source:?}");
    let [chat, echo] = &config.routes[..] else { panic!("{:?}", config.routes) };
    assert_eq!(chat.target, Target::Plugin(PluginId(0)));
    assert_eq!(
        (&chat.subprotocols[..], chat.require_subprotocol),
        (&["b".into(), "a".into()][..], true)
    );
    assert_eq!((echo.path.as_str(), echo.target), ("/echo", Target::BuiltinEcho));
    let [assets] = &config.statics[..] else { panic!("{:?}", config.statics) };
    assert_eq!(assets.path, "/assets");
    assert!(assets.dir.ends_with("public"));
}

#[test]
fn without_plugins_and_routes_the_embedded_echo_answers() {
    for config in [Config::default(), good(""), good("[log]\nlevel = \"debug\"")] {
        assert_eq!(config.plugins.len(), 1);
        assert_eq!(config.plugins[0].source, Source::EmbeddedEcho);
        assert_eq!(config.routes[0].path, "/");
        assert_eq!(config.routes[0].target, Target::Plugin(PluginId(0)));
    }
    let only_files = good("[[static]]\npath = \"/\"\ndir = \"public\"");
    assert!(only_files.plugins.is_empty() && only_files.routes.is_empty());
}

#[test]
fn the_default_file_changes_nothing() {
    assert_eq!(good(&default_file()), Config::default());
    for line in default_file().lines() {
        assert!(line.len() <= 100, "{line}");
    }
    // Its examples are right too, where what they name exists.
    let examples: String = default_file()
        .lines()
        .filter_map(|line| line.strip_prefix('#').filter(|code| !code.starts_with(' ')))
        .map(|code| code.replace("plugins/", "") + "\n")
        .collect();
    let config = good(&examples);
    assert_eq!((config.plugins.len(), config.routes.len(), config.statics.len()), (1, 1, 1));
}

#[test]
fn the_defaults_of_the_modules_are_the_documented_ones() {
    let Config { listen, conn, inbound, workers, server, .. } = Config::default();
    assert_eq!(listen, listen::Config::default());
    assert_eq!(conn, conn::Config::default());
    assert_eq!(inbound, inbound::Config::default());
    assert_eq!(workers, worker::Config::default());
    assert_eq!(server, Server::default());
}

#[test]
fn typos_are_named_with_the_nearest_key() {
    for (text, expected) in [
        (
            "[workers]\n\n  queue_sise = 10",
            "plugsock.toml:3:3: unknown key `workers.queue_sise`; did you mean `queue_size`?",
        ),
        (
            "[wrokers]\nthreads = 1",
            "plugsock.toml:1:2: unknown section `wrokers`; did you mean `workers`?",
        ),
        (
            "[[plugins]]\nname = \"a\"",
            "plugsock.toml:1:3: unknown section `plugins`; did you mean `plugin`?",
        ),
        (
            "listen = [\"127.0.0.1:1\"]",
            "plugsock.toml:1:1: unknown key `listen`; did you mean `server.listen`?",
        ),
        (
            "[server]\nmax_message_size = 1",
            "plugsock.toml:2:1: unknown key `server.max_message_size`; did you mean \
             `limits.max_message_size`?",
        ),
        (
            "[log]\ncolour = true",
            "plugsock.toml:2:1: unknown key `log.colour`; known keys: `format` or `level`",
        ),
        (
            "[[static]]\npath = \"/\"\ndri = \"x\"\ndir = \"public\"",
            "plugsock.toml:3:1: unknown key `static.dri`; did you mean `dir`?",
        ),
        (
            "[tls]\ncert = \"x\"",
            "plugsock.toml:1:2: unknown section `tls`; known sections: `server`, `workers`, \
             `limits`, `compression`, `heartbeat`, `log`, `plugin`, `route` or `static`",
        ),
        (
            "[server.listen2]\na = 1",
            "plugsock.toml:1:9: unknown key `server.listen2`; did you mean `listen`?",
        ),
    ] {
        assert_problem(text, expected);
    }
}

#[test]
fn texts_that_would_not_work() {
    for (entry, bad) in [
        (
            "server.allowed_origins = [\"VALUE\"]",
            &["https://a/", "a.org", "*", "https://A.org", "https://a b", "://", "https://*.a"][..],
        ),
        ("log.level = \"VALUE\"", &["inof", "", "info,bedug", "a=b=c"]),
        ("log.format = \"VALUE\"", &["Human", ""]),
        (
            "[[route]]\nbuiltin = \"echo\"\npath = \"VALUE\"",
            &["", "chat", "/a?b", "/a#b", "/a b", "/\u{e9}"],
        ),
        (
            "[[static]]\ndir = \"public\"\npath = \"VALUE\"",
            &["", "a", "//", "/a//b", "/..", "/a/../b", "/.git", "/%61", "/a?"],
        ),
        ("[[route]]\npath = \"/\"\nbuiltin = \"VALUE\"", &["", "ecko"]),
        (
            "[[route]]\npath = \"/\"\nbuiltin = \"echo\"\nsubprotocols = [\"VALUE\"]",
            &["", "a b", "a,b", "\u{e9}"],
        ),
        ("[[plugin]]\nsource = \"chat.wasm\"\nname = \"VALUE\"", &["", "a b", "a.b", "\u{e9}"]),
    ] {
        for value in bad {
            let text = entry.replace("VALUE", value);
            let found = problems(&text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].contains("must be "), "{found:?}");
        }
    }
    let named = |length| {
        let name = "a".repeat(length);
        format!("[[plugin]]\nsource = \"chat.wasm\"\nname = \"{name}\"")
    };
    assert_eq!(good(&named(64)).plugins[0].name.len(), 64);
    assert_eq!(problems(&named(65)).len(), 1);
}

#[test]
fn numbers_at_their_ends_and_one_past() {
    let mut draft = Draft::default();
    for (section, key) in SECTIONS.iter().flat_map(|s| s.keys.iter().map(move |key| (s.name, key)))
    {
        let (least, most, quote) = match (key.field)(&mut draft) {
            Field::Count(_, range) => (*range.start(), *range.end(), ""),
            Field::Size(_, range) => (*range.start(), *range.end(), "B"),
            Field::Time(_, range) => {
                let ms = |time: &Duration| u64::try_from(time.as_millis()).unwrap();
                (ms(range.start()), ms(range.end()), "ms")
            }
            _ => continue,
        };
        let set = |number: u64| {
            let written = format!("{number}{quote}");
            let mut draft = Draft::default();
            (key.field)(&mut draft).set(field::Input::Text(&written)).is_ok()
        };
        let name = format!("{section}.{}", key.name);
        assert!(set(least) && set(most), "{name}");
        assert!(!set(most + 1), "{name}");
        assert!(least == 0 || !set(least - 1), "{name}");
    }
}

#[test]
fn all_problems_are_reported_in_order() {
    let found = problems(
        "[workers]\nthreads = \"x\"\nqueue_sise = 1\n[server]\nshards = 300\n[[route]]\n\
         plugin = \"chta\"\n[[plugin]]\nname = \"chat\"\nsource = \"missing.wasm\"\n",
    );
    let starts = [
        "plugsock.toml:2:11: `workers.threads` must be",
        "plugsock.toml:3:1: unknown key `workers.queue_sise`",
        "plugsock.toml:5:10: `server.shards` must be a whole number from 0 to 256",
        "plugsock.toml:6:1: missing key `route.path`",
        "plugsock.toml:7:1: `route.plugin`: unknown plugin `chta`; did you mean `chat`?",
        "plugsock.toml:10:1: `plugin.source`: there is no file missing.wasm",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (problem, start) in found.iter().zip(starts) {
        assert!(problem.starts_with(start), "{problem}");
    }
}

#[test]
fn what_is_not_toml() {
    let found = problems("[server]\nshards = \nbacklog = 1\nbacklog = 2\n");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("plugsock.toml:2:"), "{found:?}");
    assert!(found[0].contains("not valid TOML: "), "{found:?}");
    assert!(found.iter().any(|problem| problem.contains(":4:1: not valid TOML: duplicate key")));
    assert!(found.iter().all(|problem| !problem.contains('\n')), "{found:?}");

    let missing = load(&Sources { file: Some(Path::new("/nonexistent")), ..Sources::default() });
    assert!(missing.unwrap_err()[0].to_string().starts_with("/nonexistent: cannot read it: "));
    let comment = "#".repeat(1 << 20);
    good(&comment);
    assert_problem(&(comment + "#"), "plugsock.toml: cannot read it: it is larger than 1 MiB");
}

#[test]
fn entries_and_their_relations() {
    let chat = "[[plugin]]\nname = \"chat\"\nsource = \"chat.wasm\"\n";
    let route = "[[route]]\npath = \"/\"\nplugin = \"chat\"\n";
    for (text, expected) in [
        (
            format!("{chat}{chat}{route}"),
            "plugsock.toml:5:1: `plugin.name` is the same as in line 2: change or remove one",
        ),
        (
            format!("{chat}{route}{route}"),
            "plugsock.toml:8:1: `route.path` is the same as in line 5: change or remove one",
        ),
        (
            "[[route]]\npath = \"/\"\n".to_owned(),
            "plugsock.toml:1:1: missing key `route.plugin`: name the plugin that serves this \
             route, or set `builtin = \"echo\"`",
        ),
        (
            format!("{chat}{route}builtin = \"echo\"\n"),
            "plugsock.toml:6:1: `route.plugin` and `route.builtin` exclude each other: keep one \
             of them",
        ),
        (
            route.to_owned(),
            "plugsock.toml:3:1: `route.plugin`: unknown plugin `chat`; there is no [[plugin]]",
        ),
        (
            format!("{chat}{route}[[route]]\npath = \"/x\"\nplugin = \"somewhere\"\n"),
            "plugsock.toml:9:1: `route.plugin`: unknown plugin `somewhere`; known: `chat`",
        ),
        (
            format!("{chat}{route}require_subprotocol = true\n"),
            "plugsock.toml:7:1: `route.require_subprotocol` is true but `route.subprotocols` is \
             empty: every client would be refused; list the subprotocols",
        ),
        (
            "[[plugin]]\nname = \"chat\"\n".to_owned(),
            "plugsock.toml:1:1: missing key `plugin.source`: add a path",
        ),
        (
            "[[static]]\npath = \"/\"\ndir = \"chat.wasm\"\n".to_owned(),
            "plugsock.toml:3:1: `static.dir`: chat.wasm is a file, not a directory",
        ),
        (
            "[[static]]\npath = \"/\"\ndir = \"missing\"\n".to_owned(),
            "plugsock.toml:3:1: `static.dir`: there is no directory missing",
        ),
        (
            format!("[[plugin]]\nname = \"chat\"\nsource = \"public\"\n{route}"),
            "plugsock.toml:3:1: `plugin.source`: public is a directory: name the .wasm file \
             that the build made",
        ),
        (
            "[[static]]\npath = \"/a\"\ndir = \"public\"\n[[static]]\npath = \"/a/\"\n\
             dir = \"public\"\n"
                .to_owned(),
            "plugsock.toml:5:1: `static.path` is the same as in line 2: change or remove one",
        ),
    ] {
        assert_problem(&text, expected);
    }
}

#[test]
fn a_plugin_that_no_route_names_is_only_a_warning() {
    let text = "[[plugin]]\nname = \"chat\"\nsource = \"chat.wasm\"\n";
    let loaded = load_with(text, Sources::default()).unwrap();
    assert_eq!(loaded.warnings.len(), 1);
    let warning = &loaded.warnings[0];
    assert_eq!(warning.message, "no route names plugin `chat`: nothing will reach it");
    assert!(matches!(warning.place, Place::Line { line: 2, column: 1, .. }));
    let routed = format!("{text}[[route]]\npath = \"/\"\nplugin = \"chat\"\n");
    assert!(load_with(&routed, Sources::default()).unwrap().warnings.is_empty());
}

#[test]
fn the_number_of_entries_is_bounded() {
    let statics = |count: usize| {
        let one = |i| format!("[[static]]\npath = \"/{i}\"\ndir = \"public\"\n");
        (0..count).map(one).collect::<String>()
    };
    assert_eq!(good(&statics(64)).statics.len(), 64);
    assert_problem(&statics(65), "plugsock.toml:193:1: more than 64 of [[static]]: remove some");
    let tokens = |count: usize| {
        let list: Vec<_> = (0..count).map(|i| format!("\"t{i}\"")).collect();
        let list = list.join(",");
        format!("[[route]]\npath = \"/\"\nbuiltin = \"echo\"\nsubprotocols = [{list}]\n")
    };
    assert_eq!(good(&tokens(256)).routes[0].subprotocols.len(), 256);
    assert!(problems(&tokens(257))[0].contains("at most 256 texts"));
}

#[test]
fn settings_that_do_not_fit_together() {
    for (fits, past, start) in [
        (
            "limits.max_message_size = \"1MiB\"\nlimits.max_frame_size = \"1MiB\"",
            "limits.max_message_size = \"1MiB\"\nlimits.max_frame_size = 1048577",
            "plugsock.toml:2:8: `limits.max_frame_size` (1048577B) is above \
             `limits.max_message_size` (1MiB): ",
        ),
        (
            "workers.queue_bytes = \"4MiB\"",
            "workers.queue_bytes = 4194303",
            "plugsock.toml:1:9: `workers.queue_bytes` (4194303B) is below \
             `limits.max_message_size` (4MiB): ",
        ),
        (
            "workers.threads = 3\nworkers.pool_size = 3",
            "workers.threads = 3\nworkers.pool_size = 2",
            "plugsock.toml:2:9: `workers.pool_size` (2) is below `workers.threads` (3): ",
        ),
        (
            "heartbeat.interval = \"89999ms\"",
            "heartbeat.interval = \"90s\"",
            "plugsock.toml:1:11: `heartbeat.timeout` (90s) is not above `heartbeat.interval` \
             (90s): ",
        ),
        (
            "server.shards = 1\nserver.max_connections = 16_777_216",
            "server.shards = 1\nserver.max_connections = 16_777_217",
            "plugsock.toml:2:8: `server.max_connections` (16777217) is above 16777216 per shard \
             (shards: 1): ",
        ),
    ] {
        good(fits);
        let found = problems(past);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(start), "{found:?}");
    }
    assert_eq!(good("heartbeat.enabled = false\nheartbeat.interval = \"2h\"").conn.heartbeat, None);
}

#[test]
fn a_small_pool_is_right_on_any_machine() {
    let workers = good("workers.pool_size = 1").workers;
    assert_eq!((workers.threads, workers.pool_size), (1, 1));
    let workers = good("workers.threads = 5").workers;
    assert_eq!((workers.threads, workers.pool_size), (5, 20));
}
