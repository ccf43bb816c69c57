// The live list of changes.
import { listen } from "./feed.js";
import { announce, element, localizeTimes, root } from "./page.js";

const maxNames = 20, maxItems = 200, announceAfter = 5000;
const list = document.getElementById("changes");
const pause = document.getElementById("pause");
const state = document.getElementById("state");
const shown = new Map(); // catalog -> digest and time of its latest version in the list
for (const { dataset } of list.children) shown.set(dataset.catalog, dataset);
let paused = false, waiting = []; // changes received while paused
let unannounced = 0;

const link = (path, text) => element("a", { href: root + path }, text);
const short = (digest) => digest.split(":").pop().slice(0, 12);
const catalogPath = (catalog) => "catalogs/" + encodeURIComponent(catalog);

function names(label, catalog, packages, isLinked) {
	if (packages.length === 0) return "";
	const line = element("p", {}, `${label}: `);
	for (const [i, name] of packages.slice(0, maxNames).entries()) {
		line.append(i ? ", " : "", isLinked ? link(catalogPath(catalog) + "/packages/" + encodeURIComponent(name), name) : name);
	}
	if (packages.length > maxNames) line.append(` and ${packages.length - maxNames} more`);
	return line;
}

function item({ type, catalog, digest, version, lastModified, previous, added, changed, removed }) {
	const time = new Date(lastModified ?? Date.now()).toISOString();
	const head = element("p", {}, element("time", { datetime: time }, time), " ", link(catalogPath(catalog), catalog), " ");
	const entry = element("li", {}, head);
	if (type === "removed") {
		head.append("is no longer served");
		return entry;
	}
	head.append(element("code", {}, short(digest)));
	if (added) {
		entry.append(names("Added", catalog, added, true), names("Changed", catalog, changed, true), names("Removed", catalog, removed, false));
		if (added.length + changed.length + removed.length === 0) entry.append(element("p", {}, "No package changed."));
	} else {
		entry.append(element("p", {}, previous ? "The changed packages are unknown, because the page was disconnected." : "This catalog is new."));
	}
	if (!previous) return entry;
	const compare = new URLSearchParams({ from: `${catalog}@${previous}`, to: `${catalog}@${version || digest}` });
	entry.append(element("p", { class: "dim" }, "Previous: ", element("code", {}, short(previous)), " ", link("compare?" + compare, "Compare"),
		" (available for about 15 minutes)"));
	return entry;
}

function add(change) {
	const entry = item(change);
	list.prepend(entry);
	localizeTimes(entry);
	while (list.children.length > maxItems) list.lastElementChild.remove();
	if (unannounced++ > 0) return;
	setTimeout(() => {
		announce(unannounced === 1 ? `Catalog ${change.catalog} has changed.` : `${unannounced} changes.`);
		unannounced = 0;
	}, announceAfter);
}

function label() {
	pause.textContent = !paused ? "Pause" : waiting.length ? `Resume (${waiting.length} new)` : "Resume";
}

pause.addEventListener("click", () => {
	paused = !paused;
	for (const change of waiting.splice(0)) add(change);
	label();
});

function showConnection({ failures, reason }) {
	if (failures === 0) state.textContent = "Live. New versions appear here.";
	else if (reason || failures > 1) state.textContent = `Not live: ${reason?.slice(0, 300) || "the connection failed"}. Retrying.`;
}

listen((message) => {
	if (message.type === "connection") return showConnection(message);
	const { type, catalog, digest, lastModified } = message;
	const old = shown.get(catalog);
	if (list.dataset.catalog && list.dataset.catalog !== catalog) return;
	if (type === "digest" && old && (old.digest === digest || new Date(lastModified) <= new Date(old.since))) return;
	if (type === "removed" && !old) return;
	if (type === "removed") shown.delete(catalog);
	else shown.set(catalog, { digest, since: lastModified });
	document.querySelector("main .empty")?.remove();
	const change = { previous: old?.digest, ...message };
	if (!paused) return add(change);
	waiting.push(change);
	waiting = waiting.slice(-maxItems);
	label();
});
state.textContent = "Connecting …";
pause.hidden = false;
