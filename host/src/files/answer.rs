//! Responses.

use std::fs::File;
use std::io::Read;

/// What a request is answered with.
pub(super) enum Answer {
    /// 200.
    File { media_type: &'static str, size: u64, file: File },
    /// 301, to a path.
    Moved(String),
    /// 403.
    TooLarge,
    /// 404.
    NotFound,
    /// 405.
    MethodNotAllowed,
    /// 503: the file is there but the system would not let it be read now.
    Unavailable,
}

impl Answer {
    /// Appends the response; without its body in answer to HEAD (RFC 9110 §9.3.2).
    pub(super) fn write(self, with_body: bool, out: &mut Vec<u8>) {
        let start = out.len();
        let (status, extra, sentence) = match self {
            Self::File { media_type, size, file } => {
                write_head("200 OK", "", media_type, size, out);
                if !with_body || copy(file, size, out) {
                    return;
                }
                // The size is promised already: take it back.
                out.truncate(start);
                return Self::Unavailable.write(with_body, out);
            }
            Self::Moved(path) => {
                ("301 Moved Permanently", format!("Location: {path}\r\n"), "moved\n")
            }
            Self::TooLarge => {
                ("403 Forbidden", String::new(), "this file is too large to be served from here\n")
            }
            Self::NotFound => ("404 Not Found", String::new(), "not found\n"),
            Self::MethodNotAllowed => {
                let allow = "Allow: GET, HEAD\r\n".to_owned();
                ("405 Method Not Allowed", allow, "only GET and HEAD are answered here\n")
            }
            Self::Unavailable => {
                let retry = "Retry-After: 1\r\n".to_owned();
                ("503 Service Unavailable", retry, "try again\n")
            }
        };
        write_head(status, &extra, "text/plain; charset=utf-8", sentence.len() as u64, out);
        if with_body {
            out.extend_from_slice(sentence.as_bytes());
        }
    }
}

/// `extra` holds whole header lines.
fn write_head(status: &str, extra: &str, media_type: &str, size: u64, out: &mut Vec<u8>) {
    let head = format!(
        "HTTP/1.1 {status}\r\n\
         {extra}\
         Content-Type: {media_type}\r\n\
         Content-Length: {size}\r\n\
         X-Content-Type-Options: nosniff\r\n\
         Cache-Control: no-cache\r\n\
         Connection: close\r\n\
         \r\n"
    );
    out.extend_from_slice(head.as_bytes());
}

/// Appends exactly `size` bytes; false if the file has fewer by now or cannot be read.
fn copy(file: File, size: u64, out: &mut Vec<u8>) -> bool {
    // Once: growing by doubling would take twice the memory.
    out.reserve_exact(usize::try_from(size).unwrap_or(0));
    file.take(size).read_to_end(out).is_ok_and(|read| read as u64 == size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_shrank_is_not_sent_short() {
        let file = tempfile::tempfile().unwrap();
        let mut out = b"before".to_vec();
        Answer::File { media_type: "text/css", size: 1, file }.write(true, &mut out);
        let out = String::from_utf8(out).unwrap();
        assert!(out.starts_with("beforeHTTP/1.1 503 "), "{out}");
        assert_eq!(out.matches("HTTP/1.1").count(), 1);
    }
}
