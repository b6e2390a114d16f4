// A frame in a notebook: as high as it asks to be, within reason, and in the theme of the notebook.
for (const host of document.querySelectorAll("[data-looprop-frame]:not([data-met])")) {
  const frame = host.querySelector("iframe");
  host.dataset.met = "";
  const tell = () => frame.contentWindow?.postMessage({ loopropTheme: themeOf(document.body) ?? "" }, "*");
  addEventListener("message", ({ source, data }) => {
    if (source !== frame.contentWindow || !(data?.loopropHeight > 0)) return;
    frame.style.height = `${Math.min(900, Math.max(240, Math.ceil(data.loopropHeight)))}px`;
    tell();
  });
  following(tell);
}
