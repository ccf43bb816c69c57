// Sets the chosen theme before the first paint. Without a choice, the setting of the browser applies.
"use strict";
try {
	const theme = localStorage.getItem("catalogd-theme");
	if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* storage is disabled */ }
