// The limits of the plugin.
const NAME_LIMIT = 32; // characters
const TEXT_LIMIT = 4096; // bytes of UTF-8
// The oldest lines leave first.
const LOG_LIMIT = 500;
// Back-off between attempts: doubles from the first to the second figure.
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 30_000;

const query = new URLSearchParams(location.search);
const room = query.get("room")?.trim() || "lobby";
const host = query.get("host") || location.host || "127.0.0.1:8080";

const element = (id) => document.getElementById(id);
const log = element("log");
const state = element("state");
const problem = element("problem");
const text = element("text");
const name = element("name");

let socket = null;
let attempts = 0;
let timer = null;

element("title").textContent = `# ${room}`;
document.title = `${room} – Plugsock chat`;
element("room").value = room;
// Per tab, so that two tabs can be two people.
name.value = sessionStorage.getItem("name") ?? "";

element("say-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const line = text.value.trim();
  if (line && send(line)) {
    text.value = "";
  }
  text.focus();
});

element("name-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const wanted = name.value.trim();
  const length = [...wanted].length;
  if (length < 1 || length > NAME_LIMIT || /[:*]/.test(wanted)) {
    complain(`A name has 1 to ${NAME_LIMIT} characters, no colon and no star.`);
  } else if (send(`/name ${wanted}`)) {
    sessionStorage.setItem("name", wanted);
    text.focus();
  }
});

element("room-form").addEventListener("submit", (event) => {
  event.preventDefault();
  query.set("room", element("room").value.trim() || "lobby");
  location.search = query.toString();
});

// A laptop that wakes or a network that comes back need not wait for the timer.
window.addEventListener("online", () => retryNow());
document.addEventListener("visibilitychange", () => document.hidden || retryNow());
// A page that comes back from the browser's cache has lost its socket.
window.addEventListener("pageshow", (event) => event.persisted && retryNow());

connect();

function connect() {
  clearTimeout(timer);
  timer = null;
  show("connecting", "Connecting…");
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const wanted = new URLSearchParams({ room });
  const known = sessionStorage.getItem("name");
  if (known) {
    wanted.set("name", known);
  }
  const current = new WebSocket(`${scheme}://${host}/chat?${wanted}`);
  socket = current;

  current.addEventListener("open", () => {
    attempts = 0;
    show("open", "Connected");
  });
  current.addEventListener("message", (event) => {
    if (typeof event.data === "string") {
      append(event.data);
    }
  });
  current.addEventListener("close", (event) => {
    if (current === socket) {
      socket = null;
      retryLater(event.reason);
    }
  });
}

// Half of the wait is drawn at random, so that a restarted server does not meet all its clients
// in the same instant.
function retryLater(reason) {
  const longest = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempts);
  const wait = longest / 2 + (Math.random() * longest) / 2;
  attempts += 1;
  const seconds = Math.max(1, Math.round(wait / 1000));
  const why = reason ? ` (${reason})` : "";
  show("waiting", `Connection lost${why}, next attempt in ${seconds} s`);
  timer = setTimeout(connect, wait);
}

function retryNow() {
  if (socket === null) {
    connect();
  }
}

function send(line) {
  if (new TextEncoder().encode(line).length > TEXT_LIMIT) {
    complain(`A message has at most ${TEXT_LIMIT} bytes.`);
    return false;
  }
  if (socket?.readyState !== WebSocket.OPEN) {
    complain("Not connected. Your text is kept.");
    return false;
  }
  complain("");
  socket.send(line);
  return true;
}

// What others wrote goes into text nodes only, never into HTML.
function append(line) {
  const following = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  const item = document.createElement("li");
  const split = line.indexOf(": ");
  if (line.startsWith("* ") || split < 0) {
    item.className = "notice";
    item.textContent = line.replace(/^\* /, "");
  } else {
    const who = document.createElement("span");
    who.className = "who";
    // With the colon, so that the line reads the same where it is copied.
    who.textContent = line.slice(0, split + 2);
    item.append(who, line.slice(split + 2));
  }
  log.append(item);
  while (log.childElementCount > LOG_LIMIT) {
    log.firstElementChild.remove();
  }
  if (following) {
    log.scrollTop = log.scrollHeight;
  }
}

function show(kind, words) {
  state.dataset.state = kind;
  state.textContent = words;
  element("send").disabled = kind !== "open";
  if (kind === "open") {
    complain("");
  }
}

function complain(words) {
  problem.textContent = words;
}
