// Highlights the versions that can upgrade to a version of a channel, and the versions that it can upgrade to.

import { announce } from "./page.js";

const rows = [...document.querySelectorAll("table.graph > tbody > tr")];
const over = JSON.parse(document.querySelector("#over").textContent);
const next = rows.map(() => []);
over.forEach((list, row) => list.forEach((from) => next[from].push(row)));

const legend = document.querySelector(".neighbors");
legend.hidden = false;

let shown = -1;

function show(row) {
	if (row === shown) return;
	shown = row;
	for (const marked of document.querySelectorAll("tr:is(.here, .over, .next)")) marked.classList.remove("here", "over", "next");
	if (row < 0) return;
	rows[row].classList.add("here");
	for (const i of over[row]) rows[i].classList.add("over");
	for (const i of next[row]) rows[i].classList.add("next");
	legend.replaceChildren(...sentence(row));
}

/** Returns the legend of a row, with its counts in the colors of the marked rows. */
function sentence(row) {
	const mark = (kind, text) => {
		const span = document.createElement("span");
		span.className = "mark " + kind;
		span.textContent = text;
		return span;
	};
	const version = rows[row].querySelector("th a").textContent;
	return [mark("over", counted(over[row].length)), ` of this channel can upgrade to ${version}. `, version, " can upgrade to ",
		mark("next", counted(next[row].length)), "."];
}

function counted(n) {
	return n === 1 ? "1 version" : `${n || "no"} version${n ? "s" : ""}`;
}

const rowOf = (event) => rows.indexOf(event.target.closest?.("table.graph > tbody > tr"));

const table = document.querySelector("table.graph");
table.addEventListener("pointerover", (event) => show(rowOf(event)));
table.addEventListener("pointerleave", () => show(rows.indexOf(document.activeElement.closest("table.graph > tbody > tr"))));
table.addEventListener("focusin", (event) => {
	const row = rowOf(event);
	if (row !== shown) {
		show(row);
		if (row >= 0) announce(legend.textContent);
	}
});
table.addEventListener("focusout", (event) => {
	if (!table.contains(event.relatedTarget)) show(-1);
});
