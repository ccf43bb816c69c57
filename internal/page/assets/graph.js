// Marks the versions that a version of a channel can be installed over, and those that it can be upgraded to.

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

/** Returns the counts of a row as nodes, in the colors of the rows. */
function sentence(row) {
	const mark = (kind, text) => {
		const span = document.createElement("span");
		span.className = "mark " + kind;
		span.textContent = text;
		return span;
	};
	return [rows[row].querySelector("th a").textContent, " can be ", mark("over", "installed over " + counted(over[row].length)), " and ",
		mark("next", "upgraded to " + counted(next[row].length)), " of this channel."];
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
