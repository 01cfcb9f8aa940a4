use std::fs;

use super::*;

/// A directory `www` with a secret beside it.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for (name, text) in [
            ("secret.txt", "secret"),
            ("www/index.html", "<p>home"),
            ("www/a b.txt", "blank"),
            ("www/.env", "secret"),
            ("www/sub/index.html", "<p>sub"),
            ("www/sub/app.js", "let a;"),
            ("www/bare/x.css", "p {}"),
            ("more/index.html", "<p>more"),
            ("more/deep.txt", "deep"),
        ] {
            let path = tree.0.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn files(&self) -> Files {
        let serve = |path: &str, dir| Static { path: path.to_owned(), dir: self.path(dir) };
        Files::new(&[serve("/", "www"), serve("/more", "more"), serve("/more/x", "www")]).unwrap()
    }
}

/// The head and the body.
fn ask(files: &Files, method: &str, path: &str) -> (String, Vec<u8>) {
    let mut out = Vec::new();
    files.respond(method, path, &mut out);
    let end = out.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
    let body = out.split_off(end);
    (String::from_utf8(out).unwrap(), body)
}

fn status(files: &Files, path: &str) -> u16 {
    ask(files, "GET", path).0[9..12].parse().unwrap()
}

#[test]
fn a_response_is_complete() {
    let tree = Tree::new();
    let (head, body) = ask(&tree.files(), "GET", "/sub/app.js");
    assert_eq!(
        head,
        "HTTP/1.1 200 OK\r\n\
         Content-Type: text/javascript; charset=utf-8\r\n\
         Content-Length: 6\r\n\
         X-Content-Type-Options: nosniff\r\n\
         Cache-Control: no-cache\r\n\
         Connection: close\r\n\
         \r\n"
    );
    assert_eq!(body, b"let a;");
}

#[test]
fn head_is_get_without_the_body() {
    let tree = Tree::new();
    let files = tree.files();
    for path in ["/", "/sub/app.js", "/sub", "/missing"] {
        let (get, body) = ask(&files, "GET", path);
        assert!(!body.is_empty(), "{path}");
        assert_eq!(ask(&files, "HEAD", path), (get, Vec::new()), "{path}");
    }
}

#[test]
fn other_methods_are_refused() {
    let tree = Tree::new();
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "get", ""] {
        let (head, body) = ask(&tree.files(), method, "/");
        assert!(head.starts_with("HTTP/1.1 405 "), "{head}");
        assert!(head.contains("\r\nAllow: GET, HEAD\r\n"), "{head}");
        assert!(!body.is_empty());
    }
}

#[test]
fn what_each_path_serves() {
    let tree = Tree::new();
    let files = tree.files();
    for (path, expected) in [
        ("/", "<p>home"),
        ("/index.html", "<p>home"),
        ("/a%20b.txt", "blank"),
        ("/sub/", "<p>sub"),
        ("/more/", "<p>more"),
        ("/more/deep.txt", "deep"),
        ("/more/x/", "<p>home"),
        ("/more/x/sub/app.js", "let a;"),
    ] {
        let (head, body) = ask(&files, "GET", path);
        assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {head}");
        assert_eq!(String::from_utf8(body).unwrap(), expected, "{path}");
    }
    for path in ["/missing", "/sub/app.js/", "/sub/app.js/x", "/bare/", "/morex", "/more/sub/"] {
        assert_eq!(status(&files, path), 404, "{path}");
    }
}

#[test]
fn a_directory_without_its_slash_is_redirected_on_this_host() {
    let tree = Tree::new();
    fs::create_dir(tree.path("www/a b")).unwrap();
    let files = tree.files();
    for (path, location) in [
        ("/sub", "/sub/"),
        ("/more", "/more/"),
        ("/more/x/sub", "/more/x/sub/"),
        ("/a%20b", "/a%20b/"),
        ("/bare", "/bare/"),
    ] {
        let (head, _) = ask(&files, "GET", path);
        assert!(head.starts_with("HTTP/1.1 301 "), "{path}: {head}");
        assert!(head.contains(&format!("\r\nLocation: {location}\r\n")), "{path}: {head}");
    }
    for path in ["//sub", "//example.org/..", "/%0d%0aX:y", "///"] {
        assert_eq!(status(&files, path), 404, "{path}");
    }
}

#[test]
fn nothing_outside_is_served() {
    let tree = Tree::new();
    let files = tree.files();
    let absolute = tree.path("secret.txt").display().to_string();
    for path in [
        "/../secret.txt",
        "/sub/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/..%5csecret.txt",
        "/..\\secret.txt",
        "/sub/..",
        "/%2e",
        "/.env",
        "/%2eenv",
        "/index.html%00.txt",
        "/index.html\0",
        "secret.txt",
        "",
        &absolute,
        &format!("/{absolute}"),
        &format!("/{}", absolute.replace('/', "%2f")),
    ] {
        let (head, body) = ask(&files, "GET", path);
        let found = head.starts_with("HTTP/1.1 200") || body == b"secret";
        assert!(!found, "{path}: {head}");
    }
}

#[cfg(unix)]
#[test]
fn symlinks_may_not_leave() {
    use std::os::unix::fs::symlink;

    let tree = Tree::new();
    symlink(tree.path("secret.txt"), tree.path("www/out.txt")).unwrap();
    symlink("../../secret.txt", tree.path("www/sub/up.txt")).unwrap();
    symlink(tree.path("more"), tree.path("www/elsewhere")).unwrap();
    symlink("loop", tree.path("www/loop")).unwrap();
    symlink("missing", tree.path("www/dangling")).unwrap();
    symlink("sub/app.js", tree.path("www/inside.js")).unwrap();
    fs::create_dir(tree.path("www/odd")).unwrap();
    symlink("../../secret.txt", tree.path("www/odd/index.html")).unwrap();
    // A sibling whose name begins like the directory's.
    fs::create_dir(tree.path("www2")).unwrap();
    fs::write(tree.path("www2/a.txt"), "secret").unwrap();
    symlink("../www2/a.txt", tree.path("www/sibling.txt")).unwrap();
    let files = tree.files();
    for path in [
        "/out.txt",
        "/sub/up.txt",
        "/elsewhere/deep.txt",
        "/elsewhere",
        "/elsewhere/",
        "/loop",
        "/dangling",
        "/odd/",
        "/sibling.txt",
    ] {
        assert_eq!(status(&files, path), 404, "{path}");
    }
    assert_eq!(status(&files, "/inside.js"), 200);
}

#[test]
fn the_largest_file_and_one_byte_more() {
    let tree = Tree::new();
    let largest = File::create(tree.path("www/largest.bin")).unwrap();
    largest.set_len(MAX_FILE).unwrap();
    let larger = File::create(tree.path("www/larger.bin")).unwrap();
    larger.set_len(MAX_FILE + 1).unwrap();
    File::create(tree.path("www/empty.txt")).unwrap();
    let files = tree.files();
    let (head, body) = ask(&files, "GET", "/largest.bin");
    assert!(head.contains("\r\nContent-Length: 8388608\r\n"), "{head}");
    assert_eq!(body.len() as u64, MAX_FILE);
    let (head, body) = ask(&files, "GET", "/larger.bin");
    assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
    assert!(body.len() < 100);
    assert_eq!(status(&files, "/empty.txt"), 200);
}

#[cfg(unix)]
#[test]
fn only_regular_files_are_opened() {
    let tree = Tree::new();
    let _listener = std::os::unix::net::UnixListener::bind(tree.path("www/socket")).unwrap();
    assert_eq!(status(&tree.files(), "/socket"), 404);
}

#[test]
fn matching_needs_no_file() {
    let tree = Tree::new();
    let dir = tree.path("more");
    let files = Files::new(&[Static { path: "/assets".to_owned(), dir }]).unwrap();
    for (path, expected) in [
        ("/assets", true),
        ("/assets/", true),
        ("/assets/missing", true),
        ("/assetsx", false),
        ("/asset", false),
        ("/", false),
        ("", false),
        ("/Assets", false),
    ] {
        assert_eq!(files.matches(path), expected, "{path}");
    }
    assert_eq!(status(&files, "/other"), 404);
    assert!(!Files::new(&[]).unwrap().matches("/"));
}

#[test]
fn a_directory_must_be_there() {
    let tree = Tree::new();
    for name in ["missing", "secret.txt"] {
        let dir = tree.path(name);
        let error = Files::new(&[Static { path: "/".to_owned(), dir: dir.clone() }]).unwrap_err();
        let start = format!("cannot serve the directory {}: ", dir.display());
        assert!(error.to_string().starts_with(&start), "{error}");
    }
}
