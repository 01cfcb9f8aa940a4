//! tokio-tungstenite: an echo, at /broadcast a fan-out. `tungstenite PORT [BUFFER_BYTES]`

use std::io;

use bench_peers::{BACKLOG, argument, serve};
use futures_util::{SinkExt, StreamExt, TryStreamExt, future};
use tokio::net::TcpStream;
use tokio::sync::broadcast;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};

type Socket = WebSocketStream<TcpStream>;

fn main() -> io::Result<()> {
    let mut config = WebSocketConfig::default();
    if let Some(bytes) = argument(2) {
        config = config.read_buffer_size(bytes).write_buffer_size(bytes);
    }
    let (published, _) = broadcast::channel(BACKLOG);
    serve(argument(1).expect("a port"), move |stream| {
        let published = published.clone();
        async move {
            // An error ends the connection, and only that.
            let _ = connection(stream, config, published).await;
        }
    })
}

#[expect(clippy::result_large_err, reason = "the library's own type")]
async fn connection(
    stream: TcpStream,
    config: WebSocketConfig,
    published: broadcast::Sender<Message>,
) -> Result<(), Error> {
    let mut broadcasts = false;
    let route = |request: &Request, response: Response| {
        broadcasts = request.uri().path() == "/broadcast";
        Ok(response)
    };
    let socket = accept_hdr_async_with_config(stream, route, Some(config)).await?;
    if broadcasts { fan_out(socket, published).await } else { echo(socket).await }
}

/// As in the library's own example.
async fn echo(socket: Socket) -> Result<(), Error> {
    let (write, read) = socket.split();
    read.try_filter(|message| future::ready(is_data(message))).forward(write).await
}

async fn fan_out(mut socket: Socket, published: broadcast::Sender<Message>) -> Result<(), Error> {
    let mut receiver = published.subscribe();
    loop {
        tokio::select! {
            message = socket.next() => match message {
                Some(message) => {
                    let message = message?;
                    if is_data(&message) {
                        // At least this connection receives, so it cannot fail.
                        let _ = published.send(message);
                    }
                }
                None => return Ok(()),
            },
            message = receiver.recv() => {
                let Ok(message) = message else { return Ok(()) };
                socket.feed(message).await?;
                while let Ok(message) = receiver.try_recv() {
                    socket.feed(message).await?;
                }
                socket.flush().await?;
            }
        }
    }
}

fn is_data(message: &Message) -> bool {
    message.is_text() || message.is_binary()
}
