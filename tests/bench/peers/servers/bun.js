// Bun's own server: an echo, at /broadcast a fan-out. `bun bun.js PORT [--deflate]`

const [port, option] = process.argv.slice(2);
const deflate = option === "--deflate";

Bun.serve({
  hostname: "127.0.0.1",
  port: Number(port),
  fetch(request, server) {
    const broadcasts = request.url.endsWith("/broadcast");
    if (!server.upgrade(request, { data: { broadcasts } })) {
      return new Response("WebSocket only", { status: 426 });
    }
  },
  websocket: {
    // "shared" is without context takeover.
    perMessageDeflate: deflate && { compress: "shared", decompress: "shared" },
    open(ws) {
      if (ws.data.broadcasts) ws.subscribe("all");
    },
    message(ws, message) {
      if (ws.data.broadcasts) ws.publish("all", message, deflate);
      else ws.send(message, deflate);
    },
  },
});
