"use strict";
// The page is complete without this. It replaces sections by newer ones, and says so when none come: a page that
// shows an old verdict is worse than none.
(() => {
  const patience = 7000; // ms; in quiet times an update comes at least every 5 s
  const lost = document.getElementById("lost");
  const who = document.body.dataset.who || "the agent";
  const ends = document.body.dataset.ends || "the agent has stopped, the connection is gone, or the node was reset";
  let latest = Date.now();

  const live = new EventSource("live");
  live.onmessage = (message) => {
    latest = Date.now();
    for (const [id, html] of Object.entries(JSON.parse(message.data))) {
      const at = document.getElementById(id);
      if (id === "at") {
        at.textContent = html;
        continue;
      }
      const folded = at.querySelector("details:not([open])");
      at.innerHTML = html; // made and escaped by the server
      if (folded && at.querySelector("details")) at.querySelector("details").open = false;
    }
    document.title = document.querySelector("h1").textContent;
  };

  setInterval(() => {
    const silent = Date.now() - latest;
    lost.hidden = silent < patience;
    document.body.classList.toggle("old", silent >= patience);
    if (silent >= patience) {
      lost.textContent = "NO NEWS from " + who + " for " + Math.round(silent / 1000) +
        " s. What is below is old: " + ends + ".";
      document.title = "NO NEWS - " + document.querySelector("h1").textContent;
    }
    if (live.readyState === EventSource.CLOSED) location.reload(); // refused: the program was replaced
  }, 1000);

  const copy = document.getElementById("copy");
  copy.hidden = false;
  copy.onclick = async () => {
    const said = document.getElementById("copied");
    try {
      const answer = await fetch("ticket");
      await navigator.clipboard.writeText(await answer.text());
      said.textContent = "copied";
    } catch (e) {
      said.textContent = "the browser refuses to copy: use the link beside";
    }
  };
})();
