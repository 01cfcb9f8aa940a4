// ws for Node: an echo, at /broadcast a fan-out. `node ws.js PORT [--deflate]`

import { WebSocket, WebSocketServer } from "ws";

const [port, option] = process.argv.slice(2);

// As Plugsock does it: without context takeover, at the fastest level.
const deflate = {
  clientNoContextTakeover: true,
  serverNoContextTakeover: true,
  threshold: 256,
  zlibDeflateOptions: { level: 1 },
};

const server = new WebSocketServer({
  host: "127.0.0.1",
  port: Number(port),
  perMessageDeflate: option === "--deflate" && deflate,
});

server.on("connection", (socket, request) => {
  // An error ends the connection, and only that.
  socket.on("error", () => socket.terminate());
  socket.on("message", request.url === "/broadcast" ? publish : echo);
});

function echo(data, isBinary) {
  this.send(data, { binary: isBinary });
}

// As in the library's README.
function publish(data, isBinary) {
  for (const client of server.clients) {
    if (client.readyState === WebSocket.OPEN) client.send(data, { binary: isBinary });
  }
}
