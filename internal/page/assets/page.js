// Features of every page: keyboard shortcuts, the theme, local times and copy buttons.

/** Returns a new element with attributes and children. Function values become event listeners; strings become text nodes. */
export function element(name, attributes = {}, ...children) {
	const e = document.createElement(name);
	for (const [key, value] of Object.entries(attributes)) {
		if (typeof value === "function") e.addEventListener(key, value);
		else if (value !== false && value != null) e.setAttribute(key, value);
	}
	e.append(...children);
	return e;
}

/** The path from this page to the mount point. */
export const root = document.body.dataset.root;

const announcer = element("div", { class: "hidden", role: "status" });
document.body.append(announcer);

/** Announces a text to screen readers. */
export function announce(text) {
	announcer.textContent = text;
}

/** Formats times for the language and the time zone of the reader. The title keeps the time in UTC. */
export function localizeTimes(within = document) {
	const times = within.querySelectorAll("time[datetime]:not([title])");
	if (!times.length) return; // making the formats takes longer than the rest of this file
	const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
	const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
	for (const time of times) {
		const date = new Date(time.dateTime);
		if (Number.isNaN(date.getTime())) continue;
		time.title = time.textContent;
		time.textContent = "relative" in time.dataset ? ago(date, relative) : format.format(date);
	}
}

function ago(date, relative) {
	let value = (date - Date.now()) / 1000;
	for (const [unit, size] of [["second", 60], ["minute", 60], ["hour", 24], ["day", 365]]) {
		if (Math.abs(value) < size) return relative.format(Math.round(value), unit);
		value /= size;
	}
	return relative.format(Math.round(value), "year");
}

function addTheme() {
	const button = document.querySelector("button.theme");
	const dark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
	const label = () => { button.textContent = dark() ? "Light" : "Dark"; };
	button.addEventListener("click", () => {
		document.documentElement.dataset.theme = dark() ? "light" : "dark";
		document.cookie = `catalogd-theme=${document.documentElement.dataset.theme}; path=/; max-age=31536000; samesite=lax`; // the server reads it
		label();
	});
	const show = () => {
		const chosen = document.cookie.match(/(?:^|; )catalogd-theme=(light|dark)(?:;|$)/);
		if (chosen) document.documentElement.dataset.theme = chosen[1];
		label();
	};
	addEventListener("pageshow", show); // Back can show a page from before the choice
	show();
	button.hidden = false;
}

function addCopyButtons() {
	for (const pre of document.querySelectorAll("pre[data-copy]")) {
		const button = element("button", { type: "button", click: async () => {
			await navigator.clipboard.writeText(pre.textContent);
			button.textContent = "Copied";
			announce("Copied");
		} }, "Copy");
		pre.replaceWith(element("div", { class: "copyable" }, button, pre.cloneNode(true)));
	}
}

const keys = [["/", "search"], ["y", "pin the URL to the shown version of the catalog"], ["f", "go to the filters"], ["?", "show these keys"], ["Esc", "close"]];

function showKeys() {
	const dialog = element("dialog", { "aria-label": "Keys" }, element("h2", {}, "Keys"));
	for (const [key, what] of keys) dialog.append(element("p", {}, element("kbd", {}, key), " ", what));
	dialog.append(element("button", { type: "button", click: () => dialog.close() }, "Close"));
	dialog.addEventListener("close", () => dialog.remove());
	document.body.append(dialog);
	dialog.showModal();
}

function onKey(event) {
	if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
	if (event.target.closest("input, textarea, select, dialog, [contenteditable]")) return;
	const actions = {
		"/": () => document.querySelector("#q").select(),
		"?": showKeys,
		"f": () => document.querySelector(".facets a")?.focus(),
		"y": () => {
			const pinned = document.querySelector("link[rel=alternate][data-pinned]");
			if (pinned && pinned.href !== location.href) location.assign(pinned.href);
		},
	};
	if (!(event.key in actions)) return;
	event.preventDefault();
	actions[event.key]();
}

addTheme();
addCopyButtons();
localizeTimes();
document.addEventListener("keydown", onKey);
if (document.body.dataset.watch) addEventListener("load", () => import("./feed.js")); // after what the page shows
