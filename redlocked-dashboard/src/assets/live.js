// Keeps the page as it is on the server: a live part comes each second, and what has changed is replaced.
"use strict";
(() => {
  const main = document.getElementById("main");
  const state = document.getElementById("state");
  if (!main || !main.dataset.live || !window.EventSource) return;
  const say = (text) => { if (state && state.textContent !== text) state.textContent = text; };
  let source = null;

  // Replaces what differs, part by part, so that a selection, the focus and an open list stay.
  const morph = (here, there) => {
    if (here.nodeType !== there.nodeType || here.nodeName !== there.nodeName) return here.replaceWith(there);
    if (here.nodeType === Node.TEXT_NODE) {
      if (here.data !== there.data) here.data = there.data;
      return;
    }
    if (here.nodeType !== Node.ELEMENT_NODE) return;
    for (const { name } of [...here.attributes]) {
      if (!there.hasAttribute(name) && !(here.nodeName === "DETAILS" && name === "open")) here.removeAttribute(name);
    }
    for (const { name, value } of [...there.attributes]) {
      if (here.getAttribute(name) !== value) here.setAttribute(name, value);
    }
    children(here, there);
  };
  const children = (here, there) => {
    const news = [...there.childNodes];
    while (here.childNodes.length > news.length) here.lastChild.remove();
    news.forEach((next, at) => {
      const old = here.childNodes[at];
      if (old) morph(old, next); else here.append(next);
    });
  };

  const open = () => {
    if (source) return;
    source = new EventSource(main.dataset.live);
    source.onmessage = (event) => {
      say("live");
      const next = new DOMParser().parseFromString(event.data, "text/html").body;
      children(main, next);
    };
    source.onerror = () => {
      say("no connection, tries again");
      // The browser tries again by itself, except where the answer was no stream.
      if (source && source.readyState === EventSource.CLOSED) {
        source = null;
        setTimeout(() => { if (!document.hidden) open(); }, 2000);
      }
    };
  };
  const close = () => {
    if (source) source.close();
    source = null;
    say("paused");
  };

  // A page that nobody sees asks for nothing.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  say("connecting");
  open();
})();
