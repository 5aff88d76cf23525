// What the pages can do besides: keep up with the node, draw charts, and ask for
// the next step of a long action. Every page works without it.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);

  // Relative times, as the server writes them.
  const brief = (s) => s < 60 ? `${Math.floor(s)} s` : s < 3600 ? `${Math.floor(s / 60)} min` : s < 172800 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} days`;
  const ago = (at) => {
    const s = (Date.now() - at) / 1000;
    return s > -1 && s < 2 ? "just now" : s < 0 ? `in ${brief(-s)}` : `${brief(s)} ago`;
  };
  const tick = () => {
    for (const t of document.querySelectorAll("time[datetime]")) {
      const text = ago(Date.parse(t.dateTime));
      if (t.textContent !== text) t.textContent = text;
    }
  };
  setInterval(tick, 5000);

  // Charts.
  const lines = [["enqueued", "--blue"], ["done", "--green"], ["failed", "--amber"], ["dead", "--red"]];
  let plot = null;
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const clock = (s) => new Date(s * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  const draw = () => {
    const card = byId("chart");
    if (!card || typeof uPlot === "undefined") return;
    const box = card.querySelector(".plot");
    const axis = { stroke: color("--muted"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 } };
    if (plot) plot.destroy();
    box.replaceChildren();
    plot = new uPlot({
      width: box.clientWidth, height: box.clientHeight,
      legend: { show: false }, cursor: { y: false, drag: { x: false, y: false } },
      scales: { y: { range: (_, __, most) => [0, Math.max(most * 1.1, 1)] } },
      axes: [{ ...axis, space: 70, values: (_, ticks) => ticks.map(clock) }, { ...axis, size: 46 }],
      series: [{}, ...lines.map(([label, name]) => ({ label, stroke: color(name), width: 1.6, points: { show: false } }))],
    }, JSON.parse(card.dataset.chart), box);
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", card.querySelector(".summary").textContent);
  };
  const redraw = (next) => {
    const card = byId("chart");
    if (!card || !next || card.dataset.chart === next.dataset.chart) return;
    card.dataset.chart = next.dataset.chart;
    card.querySelector(".summary").textContent = next.querySelector(".summary").textContent;
    if (plot) plot.setData(JSON.parse(card.dataset.chart));
  };
  draw();
  let resized = 0;
  window.addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(draw, 150); });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

  // What is being typed stays.
  const touched = (el) => [...el.querySelectorAll("textarea, input:not([type=hidden])")].some((f) => f.value !== f.defaultValue || f === document.activeElement);
  const put = (el, next) => {
    if (el.isEqualNode(next) || touched(el)) return;
    const active = el.contains(document.activeElement) ? document.activeElement : null;
    const key = active && (active.id ? `#${CSS.escape(active.id)}` : active.getAttribute("href") ? `[href="${CSS.escape(active.getAttribute("href"))}"]` : "");
    const fresh = document.importNode(next, true);
    el.replaceWith(fresh);
    if (key) fresh.querySelector(key)?.focus();
  };
  const refresh = async () => {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.redirected) { location.reload(); return; } // to the login, say
    if (answer.status === 404) return; // what it shows was deleted
    if (!answer.ok) throw new Error(answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.title = page.title;
    for (const el of document.querySelectorAll("[data-live]")) {
      const next = page.getElementById(el.id);
      if (next) put(el, next);
    }
    redraw(page.getElementById("chart"));
    tick();
  };

  // Follow the node. A refresh takes its time on a busy one, which is then asked less often.
  const pulse = byId("pulse");
  const say = (text) => { if (pulse && pulse.textContent !== text) pulse.textContent = text; };
  const follow = (url) => {
    let due = false, busy = false;
    const turn = async () => {
      if (busy) { due = true; return; }
      busy = true; due = false;
      const began = performance.now();
      try { await refresh(); say("Live"); } catch { say("The node does not answer. Trying again…"); due = true; }
      const took = performance.now() - began;
      setTimeout(() => { busy = false; if (due) turn(); }, Math.max(500, 10 * took));
    };
    let source = null;
    const open = () => {
      source = new EventSource(url);
      source.addEventListener("changed", () => { if (!document.hidden) turn(); else due = true; });
      source.onopen = () => say("Live");
      source.onerror = () => {
        say("The node does not answer. Trying again…");
        if (source.readyState === EventSource.CLOSED) setTimeout(() => { open(); turn(); }, 3000);
      };
    };
    open();
    document.addEventListener("visibilitychange", () => { if (!document.hidden && due) turn(); });
    setInterval(() => { if (!document.hidden) turn(); }, 30000); // what changes by itself, such as a lag
    window.addEventListener("pagehide", () => source.close());
    window.addEventListener("pageshow", (e) => { if (e.persisted) { open(); turn(); } });
  };
  if (document.body.dataset.follow) follow(document.body.dataset.follow);

  // The next step of a long action.
  const step = () => {
    const form = document.querySelector("form[data-next]");
    if (!form) return;
    const fail = () => { form.removeAttribute("data-next"); form.insertAdjacentText("beforebegin", "The node does not answer. Go on when it does."); };
    const timer = setTimeout(async () => {
      try {
        const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const next = page.getElementById("bulk");
        if (!answer.ok || !next || stopped) { if (!stopped) fail(); return; }
        document.title = page.title;
        byId("bulk").replaceWith(document.importNode(next, true));
        step();
      } catch { fail(); }
    }, Number(form.dataset.next));
    let stopped = false;
    const stop = () => { stopped = true; clearTimeout(timer); };
    form.addEventListener("submit", stop);
    form.querySelector("[data-stop]").addEventListener("click", stop);
  };
  step();
})();
