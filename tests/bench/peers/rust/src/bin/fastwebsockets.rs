//! fastwebsockets over hyper: an echo, at /broadcast a fan-out. `fastwebsockets PORT`

use std::io;

use bench_peers::{BACKLOG, argument, serve};
use fastwebsockets::upgrade::{UpgradeFut, upgrade};
use fastwebsockets::{
    FragmentCollector, FragmentCollectorRead, Frame, OpCode, Payload, WebSocketError,
};
use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::broadcast;
use tokio::task::{spawn_local, unconstrained};

type Published = (OpCode, Bytes);

fn main() -> io::Result<()> {
    let (published, _) = broadcast::channel(BACKLOG);
    serve(argument(1).expect("a port"), move |stream| connection(stream, published.clone()))
}

async fn connection(stream: TcpStream, published: broadcast::Sender<Published>) {
    let service = service_fn(|request| respond(request, published.clone()));
    // An error ends the connection, and only that.
    let _ =
        http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades().await;
}

async fn respond(
    mut request: Request<Incoming>,
    published: broadcast::Sender<Published>,
) -> Result<Response<Empty<Bytes>>, WebSocketError> {
    let (response, upgraded) = upgrade(&mut request)?;
    // Without tokio's budget, as in the library's own example.
    if request.uri().path() == "/broadcast" {
        spawn_local(unconstrained(fan_out(upgraded, published)));
    } else {
        spawn_local(unconstrained(echo(upgraded)));
    }
    Ok(response)
}

/// As in the library's own example.
async fn echo(upgraded: UpgradeFut) -> Result<(), WebSocketError> {
    let mut socket = FragmentCollector::new(upgraded.await?);
    loop {
        let frame = socket.read_frame().await?;
        match frame.opcode {
            OpCode::Close => return Ok(()),
            OpCode::Text | OpCode::Binary => socket.write_frame(frame).await?,
            _ => {}
        }
    }
}

async fn fan_out(
    upgraded: UpgradeFut,
    published: broadcast::Sender<Published>,
) -> Result<(), WebSocketError> {
    let (read, mut write) = upgraded.await?.split(tokio::io::split);
    let mut read = FragmentCollectorRead::new(read);
    let mut receiver = published.subscribe();
    let writer = spawn_local(unconstrained(async move {
        while let Ok((opcode, payload)) = receiver.recv().await {
            let frame = Frame::new(true, opcode, None, Payload::Borrowed(&payload));
            if write.write_frame(frame).await.is_err() {
                return;
            }
        }
    }));
    // The generator sends neither pings nor a close frame, which would have to be answered here.
    while let Ok(frame) = read.read_frame(&mut |_| async { Ok::<_, WebSocketError>(()) }).await {
        match frame.opcode {
            OpCode::Close => break,
            OpCode::Text | OpCode::Binary => {
                // At least this connection receives, so it cannot fail.
                let _ = published.send((frame.opcode, Bytes::copy_from_slice(&frame.payload)));
            }
            _ => {}
        }
    }
    writer.abort();
    Ok(())
}
