//! What kind of file it is, by its name.

use std::path::Path;

/// By extension, lower case.
const TYPES: [(&str, &str); 26] = [
    ("avif", "image/avif"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("gif", "image/gif"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/x-icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("map", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("ogg", "audio/ogg"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml; charset=utf-8"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff2", "font/woff2"),
    ("xml", "application/xml; charset=utf-8"),
];

/// For the Content-Type header. An unknown kind is served as bytes, which browsers download.
pub(super) fn media_type(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let found = TYPES.iter().find(|(name, _)| extension.eq_ignore_ascii_case(name));
    found.map_or("application/octet-stream", |(_, media_type)| media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_extension() {
        for (name, expected) in [
            ("index.html", "text/html; charset=utf-8"),
            ("app.js", "text/javascript; charset=utf-8"),
            ("app.min.mjs", "text/javascript; charset=utf-8"),
            ("style.css", "text/css; charset=utf-8"),
            ("app.js.map", "application/json"),
            ("data.json", "application/json"),
            ("logo.svg", "image/svg+xml; charset=utf-8"),
            ("logo.PNG", "image/png"),
            ("photo.jpg", "image/jpeg"),
            ("favicon.ico", "image/x-icon"),
            ("plugin.wasm", "application/wasm"),
            ("robots.txt", "text/plain; charset=utf-8"),
            ("font.woff2", "font/woff2"),
            ("html", "application/octet-stream"),
            ("archive.tar.gz", "application/octet-stream"),
            ("name.", "application/octet-stream"),
        ] {
            assert_eq!(media_type(Path::new(name)), expected, "{name}");
        }
    }
}
