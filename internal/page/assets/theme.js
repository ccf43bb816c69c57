// Sets the chosen theme before the page is painted. Without a choice, the browser's setting counts.
"use strict";
try {
	const theme = localStorage.getItem("catalogd-theme");
	if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* the browser refuses storage */ }
