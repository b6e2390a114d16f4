// Output of a notebook: into a shadow root, in the theme of the notebook.
for (const host of document.querySelectorAll("[data-looprop]")) {
  if (host.shadowRoot) continue;
  const root = host.attachShadow({ mode: "open" });
  root.append(host.querySelector("template").content.cloneNode(true));
  const inside = root.querySelector(".looprop");
  following(() => {
    const theme = themeOf(document.body);
    if (theme) inside.dataset.theme = theme; else delete inside.dataset.theme;
  });
  looprop(root);
}
