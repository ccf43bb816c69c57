// The GraphQL editor. The query is in the hash of the URL, so readers can share it and servers do not log it.
import { announce, element, root } from "./page.js";

const maxShown = 1e6; // characters of a result
const [editor, catalog, query, variables, status, errors, result] =
	["editor", "in", "query", "variables", "status", "errors", "result"].map((id) => document.getElementById(id));
let running = null; // the AbortController of the running query
let download = null; // the URL of the complete result

/** Indents JSON without parsing numbers, so they keep their digits. It stops after about limit characters. */
export function format(json, limit = Infinity) {
	const out = [];
	let depth = 0, length = 0, previous = "";
	const add = (text) => { out.push(text); length += text.length; };
	const newLine = () => add("\n" + "  ".repeat(depth));
	for (const [token] of json.matchAll(/"(?:\\.|[^"\\])*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
		const closes = token === "}" || token === "]";
		if (closes) depth--;
		const opened = previous === "{" || previous === "[";
		if (closes ? !opened : opened) newLine();
		add(token);
		if (token === "{" || token === "[") depth++;
		if (token === ",") newLine();
		if (token === ":") add(" ");
		previous = token;
		if (length > limit) break;
	}
	return out.join("");
}

function readHash() {
	const values = new URLSearchParams(location.hash.slice(1));
	if (!values.has("query")) return false;
	query.value = values.get("query");
	variables.value = values.get("variables") ?? "";
	return true;
}

function writeURL() {
	const values = new URLSearchParams({ query: query.value });
	if (variables.value.trim()) values.set("variables", variables.value);
	const search = catalog.value ? "?catalog=" + encodeURIComponent(catalog.value) : "";
	history.replaceState(null, "", location.pathname + search + "#" + values);
}

function report(text, isError) {
	status.textContent = text;
	status.className = isError ? "note bad" : "dim";
}

/** Shows an error with its line in the query; a button selects the line. */
function showError({ message, locations, path }) {
	const item = element("li", {}, message);
	if (path?.length) item.append(element("div", { class: "dim" }, "at " + path.join(".")));
	for (const { line, column } of (locations ?? []).slice(0, 3)) {
		const text = query.value.split("\n")[line - 1] ?? "";
		const select = () => {
			const start = query.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
			query.focus();
			query.setSelectionRange(start, start + text.length);
		};
		const caret = text.slice(0, column - 1).replace(/[^\t]/g, " ") + "^";
		item.append(element("button", { type: "button", click: select }, `Line ${line}, column ${column}`), element("pre", { tabindex: 0 }, text + "\n" + caret));
	}
	errors.append(item);
}

function clear() {
	errors.replaceChildren();
	errors.hidden = result.hidden = true;
	result.textContent = "";
	if (download) URL.revokeObjectURL(download);
	download = null;
}

function show(text, response, milliseconds) {
	clear();
	const size = text.length < 1000 ? text.length + " characters" : Math.round(text.length / 1000).toLocaleString() + " thousand characters";
	let reply = null;
	try { reply = JSON.parse(text); } catch { /* errors of the service are text */ }
	const failed = reply?.errors ?? (reply?.data === undefined ? [{ message: text.trim() || response.statusText || "The response is empty." }] : []);
	for (const error of failed.slice(0, 20)) showError(error);
	errors.hidden = failed.length === 0;
	const summary = failed.length ? `${failed.length} ${failed.length === 1 ? "error" : "errors"}, ` : "";
	report(`${summary}${size}, ${milliseconds} ms`, failed.length > 0);
	if (reply?.data == null) return;
	const shown = format(text, maxShown);
	result.textContent = shown;
	result.hidden = false;
	download = URL.createObjectURL(new Blob([text], { type: "application/json" }));
	status.append(shown.length > maxShown ? ". Only the first part is shown. " : ". ", element("a", { href: download, download: "result.json" }, "Download"));
}

async function run() {
	let values;
	try {
		values = variables.value.trim() ? JSON.parse(variables.value) : undefined;
	} catch (error) {
		clear();
		report("The variables are not valid JSON: " + error.message, true);
		variables.focus();
		return;
	}
	writeURL();
	running?.abort();
	const mine = running = new AbortController();
	const started = performance.now();
	report("Running …", false);
	try {
		const response = await fetch(root + "graphql" + (catalog.value ? "?catalog=" + encodeURIComponent(catalog.value) : ""), {
			method: "POST", signal: mine.signal, headers: { "Content-Type": "application/json", Accept: "application/json" },
			body: JSON.stringify({ query: query.value, variables: values }),
		});
		const text = await response.text();
		if (mine === running) show(text, response, Math.round(performance.now() - started));
	} catch (error) {
		if (mine !== running) return; // a later run aborted it
		clear();
		report("The service is unreachable: " + error.message, true);
	}
}

function fill({ dataset }) {
	query.value = dataset.query;
	variables.value = dataset.variables;
}

function openType(id) {
	const type = document.getElementById(id);
	if (!type?.matches("details.type")) return;
	type.hidden = false;
	type.open = true;
	type.querySelector("summary").focus();
	type.scrollIntoView({ block: "start" });
}

/** Shows and opens the types whose names or fields contain a text. */
function filterTypes(text) {
	const wanted = text.trim().toLowerCase();
	let count = 0;
	for (const type of document.querySelectorAll("details.type")) {
		let matches = type.id.slice("type-".length).toLowerCase().includes(wanted);
		for (const name of type.querySelectorAll("dt")) {
			const found = wanted !== "" && name.textContent.toLowerCase().includes(wanted);
			name.classList.toggle("match", found);
			matches ||= found;
		}
		type.hidden = !matches;
		type.open = wanted !== "" && matches;
		if (matches) count++;
	}
	document.getElementById("found").textContent = wanted ? `${count} ${count === 1 ? "type" : "types"}` : "";
}

function addReference() {
	const filter = document.getElementById("filter");
	if (!filter) return;
	filter.hidden = false;
	document.getElementById("types").addEventListener("input", (event) => filterTypes(event.target.value));
	document.querySelector(".schema").addEventListener("click", (event) => {
		const link = event.target.closest("a[href^='#type-']");
		if (!link) return;
		event.preventDefault(); // keeps the query in the hash
		openType(link.hash.slice(1));
	});
	openType(location.hash.slice(1));
}

document.getElementById("explorer").hidden = false;
if (!readHash()) fill(document.querySelector(".examples button"));
window.addEventListener("hashchange", readHash);
for (const button of document.querySelectorAll(".examples button")) {
	button.addEventListener("click", () => {
		fill(button);
		announce("Query replaced: " + button.textContent);
	});
}
editor.addEventListener("submit", (event) => { event.preventDefault(); run(); });
editor.addEventListener("keydown", (event) => {
	if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
	event.preventDefault();
	run();
});
addReference();
