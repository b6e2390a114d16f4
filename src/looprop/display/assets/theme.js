// The theme of the notebook around an output (JupyterLab, VS Code), if it has one.
const themeOf = ({ dataset, classList }) => {
  if (dataset.jpThemeLight) return dataset.jpThemeLight === "true" ? "light" : "dark";
  return ["light", "dark"].find((name) => classList.contains(`vscode-${name}`));
};
const following = (tell) => {
  new MutationObserver(tell).observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "class"] });
  tell();
};
