// One change feed for all tabs of a browser. Over HTTP/1.1, a browser opens at most six connections to a server, and a feed occupies one.
// The tab that holds the lock reads the feed and relays it to the others. When it closes, another tab takes over.
import { announce, element, root } from "./page.js";

const maxDelay = 300_000; // ms between attempts to connect
const changes = document.getElementById("changes"); // the list of the page Changes
const url = new URL(root + (changes?.dataset.feed ?? "watch"), location.href);
const channel = new BroadcastChannel("catalogd " + url.pathname + url.search);
const listeners = new Set();
const latest = new Map(); // the last message of each catalog and, under "", of the connection
let source = null; // the feed, if this tab reads it
let release = null; // releases the lock
let opened, failures, timer = 0; // the time of the last connection, consecutive failures, the timer of the next attempt

/** Calls a function for each message of type digest, removed or connection. Messages may be repeated. */
export function listen(listener) {
	listeners.add(listener);
	for (const message of latest.values()) listener(message);
}

function receive(message) {
	latest.set(message.catalog ?? "", message);
	for (const listener of listeners) listener(message);
}

function publish(message) {
	receive(message);
	channel.postMessage(message);
}

function open() {
	source = new EventSource(url);
	for (const type of ["digest", "removed"]) {
		source.addEventListener(type, (event) => publish({ ...JSON.parse(event.data), type, version: event.lastEventId }));
	}
	source.addEventListener("open", () => {
		opened = performance.now();
		publish({ type: "connection", failures: 0 });
	});
	source.addEventListener("unavailable", (event) => fail(JSON.parse(event.data).reason));
	source.addEventListener("error", () => fail(""));
}

/** Reconnects with exponential backoff. The server also ends a healthy feed after half an hour or more. */
function fail(reason) {
	source.close();
	failures = performance.now() - opened > 10_000 ? 0 : failures + 1;
	opened = Infinity;
	if (failures) publish({ type: "connection", failures, reason });
	timer = setTimeout(open, Math.min(5000 * 2 ** failures, maxDelay));
}

function start() {
	[opened, failures] = [Infinity, 0];
	channel.postMessage({ type: "hello" });
	if (navigator.locks) navigator.locks.request(channel.name, () => new Promise((resolve) => { release = resolve; open(); }));
	else if (changes) open(); // over plain HTTP, except on localhost, browsers have no locks; only the page Changes gets a feed
}

function stop() {
	clearTimeout(timer);
	source?.close();
	release?.();
	source = release = null;
}

/** Adds a notice when catalogs of this page change. */
function addNotice() {
	const shown = new Map();
	for (const { content, dataset } of document.querySelectorAll("meta[name=catalog]")) shown.set(content, dataset);
	const changed = new Set();
	const text = element("p");
	const notice = element("aside", { class: "toast", "aria-label": "Notice" }, text,
		element("button", { type: "button", click: () => location.reload() }, "Reload"),
		element("button", { type: "button", click: () => { notice.remove(); changed.clear(); } }, "Dismiss"));
	listen(({ type, catalog, digest, lastModified }) => {
		const old = shown.get(catalog);
		if (type === "connection" || (!old && document.body.dataset.watch !== "all")) return;
		if (type === "digest" && old && (digest === old.digest || new Date(lastModified) <= new Date(old.since))) return;
		if (type === "removed" && !old) return;
		shown.set(catalog, { digest, since: lastModified });
		if (type === "removed") shown.delete(catalog);
		changed.add(catalog);
		text.textContent = changed.size === 1 ? `Catalog ${catalog} has changed.` : `${changed.size} catalogs have changed.`;
		if (!notice.isConnected) {
			document.body.append(notice);
			announce(text.textContent);
		}
	});
}

channel.addEventListener("message", ({ data }) => {
	if (data.type !== "hello") receive(data);
	else if (source) for (const message of latest.values()) channel.postMessage(message);
});
// A frozen page would keep the lock without reading the feed.
document.addEventListener("freeze", stop);
document.addEventListener("resume", start);
addEventListener("pagehide", stop);
addEventListener("pageshow", (event) => { if (event.persisted) start(); });
if (!changes) addNotice();
start();
