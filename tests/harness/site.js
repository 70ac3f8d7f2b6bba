// SPDX-License-Identifier: Apache-2.0
// A web server for a sandbox, on Node's own modules: a page with a script and a WebSocket, and what a page
// could try against its neighbours. It answers every message "name: message".
"use strict";
const crypto = require("crypto");
const http = require("http");

const [name, port] = process.argv.slice(2);
const page = `<!doctype html><title>${name}</title><h1>Hello from ${name}</h1><p id=echo></p><script src="script.js"></script>`;
// Relative, so that it works below a path as well.
const script = `
const url = new URL("ws", location.href);
url.protocol = "ws:";
const socket = new WebSocket(url);
socket.onopen = () => socket.send("hello");
socket.onmessage = (e) => { document.getElementById("echo").textContent = e.data; };
`;
const worker = `
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (e) => e.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (e) => {
  if (new URL(e.request.url).pathname.endsWith("/where")) e.respondWith(new Response("worker of ${name}"));
});
`;
const pages = {
  "/": ["text/html", () => page],
  "/script.js": ["text/javascript", () => script],
  "/secret.js": ["text/javascript", () => `window.secret = "of ${name}"`],
  "/worker.js": ["text/javascript", () => worker],
  "/where": ["text/plain", () => `server of ${name}`],
  "/cookies": ["text/plain", (req) => req.headers.cookie || ""],
};

const server = http.createServer((req, res) => {
  const [type, make] = pages[req.url.split("?")[0]] || ["text/plain", () => "nothing"];
  res.setHeader("Content-Type", type);
  if (req.url === "/cookies") res.setHeader("Set-Cookie", [`by_${name}=1`, `wide_${name}=1; Domain=preview.localhost`]);
  res.end(make(req));
});

// One short text message at a time, as the script above sends them.
server.on("upgrade", (req, socket) => {
  const sum = crypto.createHash("sha1").update(req.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${sum.digest("base64")}\r\n\r\n`);
  let got = Buffer.alloc(0);
  socket.on("data", (data) => {
    got = Buffer.concat([got, data]);
    if (got.length < 6 || got.length < 6 + (got[1] & 127)) return;
    const text = Buffer.from(got.subarray(6, 6 + (got[1] & 127)).map((b, i) => b ^ got[2 + (i % 4)]));
    got = Buffer.alloc(0);
    const reply = Buffer.from(`${name}: ${text}`);
    socket.write(Buffer.concat([Buffer.from([0x81, reply.length]), reply]));
  });
  socket.on("error", () => {});
});
server.listen(Number(port), "127.0.0.1", () => console.log("listening"));
