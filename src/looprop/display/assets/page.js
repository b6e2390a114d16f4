looprop(document);
const theme = document.getElementById("theme");
const isDark = () => document.body.dataset.theme ? document.body.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
const label = () => { theme.textContent = isDark() ? "☀ Light" : "☾ Dark"; };
theme.addEventListener("click", () => { document.body.dataset.theme = isDark() ? "light" : "dark"; label(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
label();
