//! Plain requests beside the WebSocket routes.

use std::fs;
use std::io::Write;
use std::net::Shutdown;

use crate::support::{Answer, Client, HEAD, Served, Site, connect, exchange};

fn site() -> Served {
    let site = Site::new().plugin("echo");
    let public = site.dir().join("public");
    fs::create_dir_all(public.join("sub")).unwrap();
    fs::write(site.dir().join("secret.txt"), "secret").unwrap();
    fs::write(public.join("index.html"), "<p>home").unwrap();
    fs::write(public.join("sub/style.css"), "p {}").unwrap();
    fs::write(public.join("echo"), "shadow").unwrap();
    fs::write(public.join("large.bin"), vec![7; 3 << 20]).unwrap();
    site.toml("[[static]]\npath = \"/\"\ndir = \"public\"\n").start()
}

fn get(served: &Served, path: &str) -> Answer {
    exchange(served.address(), format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n").as_bytes())
}

#[test]
fn files_are_served_with_their_type() {
    let served = site();
    let home = get(&served, "/");
    assert_eq!((home.status, home.text()), (200, "<p>home"));
    assert!(home.field("Content-Type").unwrap().starts_with("text/html"));
    assert_eq!(home.field("Content-Length"), Some("7"));
    let style = get(&served, "/sub/style.css?v=1");
    assert_eq!((style.status, style.text()), (200, "p {}"));
    assert!(style.field("Content-Type").unwrap().starts_with("text/css"));
    let large = get(&served, "/large.bin");
    assert!(large.body == vec![7; 3 << 20]);
    assert_eq!(get(&served, "/nothing").status, 404);

    let head = exchange(served.address(), b"HEAD / HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!((head.status, head.field("Content-Length"), head.text()), (200, Some("7"), ""));
    let post = exchange(served.address(), b"DELETE / HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(post.status, 405);
}

#[test]
fn nothing_outside_the_directory_is_served() {
    let served = site();
    for path in [
        "/../secret.txt",
        "/sub/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/sub/..%5c..%5csecret.txt",
        "//secret.txt",
        "/%00",
        "/./../plugsock.toml",
    ] {
        let answer = get(&served, path);
        assert!(matches!(answer.status, 400 | 404), "{path}: {}", answer.status);
        assert!(!answer.text().contains("secret"));
    }
}

#[test]
fn a_route_goes_before_a_file_and_a_file_is_no_route() {
    let served = site();
    assert_eq!(get(&served, "/echo").status, 426, "the route, not the file");
    Client::open(served.address(), "/echo").echo("the plugin");
    for path in ["/", "/sub/style.css", "/nothing"] {
        assert_eq!(Client::try_open(served.address(), path).err(), Some(404), "{path}");
    }
    let post = HEAD.replace("GET", "POST").replace("/echo", "/");
    let status = exchange(served.address(), format!("{post}\r\n").as_bytes()).status;
    assert!(matches!(status, 404 | 405), "{status}");
}

#[test]
fn a_client_that_has_said_all_still_gets_its_answer() {
    let served = site();
    for _ in 0..20 {
        let mut socket = connect(served.address());
        socket.write_all(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        std::io::Read::read_to_end(&mut socket, &mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.ends_with("<p>home"), "{answer:?}");
    }
}

#[test]
fn many_at_once_are_served_or_told_to_come_again() {
    let served = site();
    let sockets: Vec<_> = (0..200)
        .map(|_| {
            let mut socket = connect(served.address());
            socket.write_all(b"GET /sub/style.css HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
            socket
        })
        .collect();
    let mut good = 0;
    for mut socket in sockets {
        let mut answer = Vec::new();
        std::io::Read::read_to_end(&mut socket, &mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer);
        if answer.starts_with("HTTP/1.1 200 ") {
            assert!(answer.ends_with("p {}"));
            good += 1;
        } else {
            assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
            assert!(answer.contains("Retry-After"), "{answer}");
        }
    }
    assert!(good > 0);
}
