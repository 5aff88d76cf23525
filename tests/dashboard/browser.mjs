// Looks at the dashboard with Chromium: node browser.mjs FLOW. URL is the node's,
// TOKENS those of an administrator and of a viewer. Prints what went wrong as JSON.
import { chromium } from "playwright-core";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const base = process.env.URL, [admin, viewer] = (process.env.TOKENS ?? "").split(",");
const faults = [];
const check = (ok, what) => { if (!ok) faults.push(what); };
const api = async (path, body) => {
  const headers = { "Content-Type": "application/json" };
  if (admin) headers.Authorization = `Bearer ${admin}`;
  const answer = await fetch(base + path, { method: body ? "POST" : "GET", body: body && JSON.stringify(body), headers });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
};
// work takes the next job of a queue and ends it.
const work = async (queue, end) => {
  const { jobs } = await api("/v1/claims", { queues: [queue], worker: "browser:1:a", wait_ms: 20000 });
  if (!jobs.length) throw new Error(`no job in ${queue}`);
  await end(jobs[0]);
  return jobs[0];
};
const fail = (error) => (job) => api("/v1/fails", { fails: [{ lease: job.lease, error, fatal: true }] });
const enqueue = async (queue, payload, more) => (await api("/v1/jobs", { queue, type: "welcome", payload, ...more })).id;

const chrome = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
const open = async (options) => {
  const context = await chrome.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(60000);
  page.on("pageerror", (e) => faults.push(`script: ${e.message}`));
  page.on("console", (m) => { if (/Content Security Policy/i.test(m.text())) faults.push(m.text()); });
  return page;
};
const login = async (page, token, to = "/") => {
  await page.goto(base + to);
  await page.getByLabel("Access token").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
};
const pagesOf = async () => {
  const { jobs } = await api("/v1/jobs?queue=billing&state=dead&limit=1");
  return { overview: "/", queue: "/queues/billing", job: `/jobs/${jobs[0].id}`, dead: "/dead", group: "/dead?queue=billing",
    retry: "/dead/retry?queue=billing", pause: "/queues/mail/pause", workers: "/workers", nodes: "/nodes", login: "/login", missing: "/jobs/999999999" };
};

const flows = {
  // A failing job is found, grouped, edited, retried, and seen done without a reload.
  async workbench() {
    for (let i = 0; i < 3; i++) {
      await enqueue("wb", { to: `broken-${i}` });
      await work("wb", fail(`no such address: broken-${i}@example.com, line ${i}`));
    }
    const page = await open();
    await page.goto(base);
    await page.getByRole("link", { name: "Dead letters" }).click();
    const group = page.locator(".groups li", { hasText: "no such address" });
    check(await group.count() === 1, "the three failures are not one group");
    check((await group.locator(".count").innerText()).startsWith("3"), "the group does not count three jobs");
    await group.getByRole("link", { name: /^Look at the jobs/ }).click();
    await page.locator("#jobs table a").first().click();
    await page.waitForURL(/\/jobs\/\d+$/);
    const id = page.url().split("/").pop();
    check((await page.locator("#timeline").innerText()).includes("Run 1 failed"), "the timeline has no failed run");
    await page.getByLabel(/^JSON/).fill('{"to": broken');
    await page.getByRole("button", { name: "Retry this job" }).click();
    check((await page.getByRole("alert").innerText()).includes("payload"), "a broken payload is not refused in words");
    check(await page.getByLabel(/^JSON/).inputValue() === '{"to": broken', "what was typed is gone");
    await page.getByLabel(/^JSON/).fill('{"to":"mended"}');
    await page.getByRole("button", { name: "Retry this job" }).click();
    await page.locator("#job-state .queued").waitFor();
    await page.evaluate(() => { window.mark = 1; });
    await work("wb", (job) => { check(job.payload.to === "mended", "the worker got the old payload"); check(job.id === id, "another job was retried"); return api("/v1/acks", { acks: [{ lease: job.lease, result: { ok: true } }] }); });
    await page.locator("#job-state .done").waitFor();
    await page.getByText('"ok": true').waitFor();
    check(await page.evaluate(() => window.mark) === 1, "the page was loaded again");
    const { entries } = await api("/v1/audit");
    check(entries.some((e) => e.action === "job.retry" && e.target === id), "the retry is not in the audit trail");
  },
  // Many are retried at a pace, watched, stopped, and gone on with.
  async bulk() {
    for (let i = 0; i < 6; i++) { await enqueue("many", { i }); await work("many", fail("many failed")); }
    const page = await open();
    await page.goto(`${base}/dead?queue=many`);
    await page.getByRole("link", { name: "Retry all of these" }).click();
    check((await page.locator("h1").innerText()) === "Retry 6 dead jobs?", "the dry run does not count 6");
    await page.getByLabel(/^Pace/).fill("2");
    await page.getByRole("button", { name: "Retry 6 jobs" }).click();
    await page.getByText("2 jobs retried of 6").waitFor();
    await page.getByText("4 jobs retried of 6").waitFor();
    await page.getByRole("link", { name: "Stop here" }).click();
    await page.waitForURL(/\/dead\?/);
    const left = (await api("/v1/queues/many")).counts;
    check(left.dead > 0 && left.dead + left.queued === 6, `after the stop: ${JSON.stringify(left)}`);
    const plain = await open({ javaScriptEnabled: false });
    await plain.goto(`${base}/dead?queue=many`);
    await plain.getByRole("link", { name: "Archive all" }).click();
    await plain.getByLabel(/^Pace/).fill("1");
    await plain.getByRole("button", { name: /^Archive/ }).click();
    while (await plain.getByRole("button", { name: /^Go on/ }).count()) await plain.getByRole("button", { name: /^Go on/ }).click();
    check((await plain.locator("h1").innerText()) === "Done", "without the script the archive does not end");
    check((await api("/v1/queues/many")).counts.dead === 0, "dead jobs are left");
    const { entries } = await api("/v1/audit");
    check(entries.some((e) => e.action === "dead.retry" && e.count === 2) && entries.some((e) => e.action === "dead.archive"), "the steps are not in the audit trail");
  },
  async login() {
    const page = await open();
    for (const path of ["/", "/dead", "/queues/billing", "/workers", "/nodes", "/jobs/1"]) {
      await page.goto(base + path);
      check(new URL(page.url()).pathname === "/login", `${path} shows something to nobody`);
      check(!/billing|mail/.test(await page.locator("body").innerText()), `${path} names a queue to nobody`);
    }
    await login(page, "hf_wrong");
    check(/not known/.test(await page.getByRole("alert").innerText()), "a wrong token is not refused");
    await login(page, admin, "/dead?queue=billing");
    await page.waitForURL(/\/dead\?queue=billing$/);
    const cookie = (await page.context().cookies())[0];
    check(cookie.httpOnly && cookie.sameSite === "Strict" && !cookie.value.includes(admin), `cookie: ${JSON.stringify({ ...cookie, value: "…" })}`);
    const forged = await fetch(`${base}/queues/mail/pause`, { method: "POST", headers: { Cookie: `${cookie.name}=${cookie.value}`, Origin: "http://evil.example", "Sec-Fetch-Site": "cross-site" } });
    check(forged.status === 403, `a forged form: ${forged.status}`);
    const damaged = await fetch(base, { headers: { Cookie: `${cookie.name}=${cookie.value.slice(0, -4)}${cookie.value.at(-4) === "A" ? "B" : "A"}${cookie.value.slice(-3)}` }, redirect: "manual" });
    check(damaged.status === 303, `a damaged session: ${damaged.status}`);
    await page.getByRole("button", { name: "Log out" }).click();
    await page.goto(`${base}/dead`);
    check(page.url().includes("/login"), "after the logout the dead letters are still shown");
  },
  async viewer() {
    const page = await open();
    await login(page, viewer);
    for (const path of Object.values(await pagesOf())) {
      const answer = await page.goto(base + path);
      const text = await page.content();
      check(!text.includes("MARKER"), `${path} shows a payload`);
      check(path === "/login" || await page.locator("main form[method=post]").count() === 0, `${path} has a form`);
      check(!/retry|pause/.test(path) || answer.status() === 403, `${path}: ${answer.status()}`);
    }
    const jar = (await page.context().cookies()).map((c) => `${c.name}=${c.value}`).join("; ");
    const { jobs } = await api("/v1/jobs?queue=billing&state=dead&limit=1");
    for (const path of [`/jobs/${jobs[0].id}/retry`, `/jobs/${jobs[0].id}/delete`, "/dead/retry", "/dead/archive", "/queues/mail/pause"]) {
      const answer = await fetch(base + path, { method: "POST", headers: { Cookie: jar, "Content-Type": "application/x-www-form-urlencoded" }, body: "queue=billing", redirect: "manual" });
      check(answer.status === 403, `POST ${path} by a viewer: ${answer.status}`);
    }
  },
  // An edge shows what the primary has, follows it, and changes nothing.
  async edge() {
    const edge = process.env.EDGE, page = await open();
    await page.goto(edge);
    check((await page.locator("main .note").innerText()).includes("edge"), "an edge does not say that it only reads");
    await page.goto(`${edge}/queues/billing`);
    check(await page.locator("main form[method=post], main a.button").count() === 0, "an edge has a button that changes something");
    await page.goto(`${edge}/dead`);
    check(await page.locator(".groups li").count() > 0, "an edge shows no group");
    await page.goto(`${edge}/nodes`);
    check(await page.getByText("The primary is at").count() === 1, "an edge does not say where the primary is");
    const id = await enqueue("seen", { to: "edge" });
    await page.goto(edge);
    await page.getByRole("link", { name: "seen" }).waitFor();
    await page.goto(`${edge}/jobs/${id}`);
    await page.locator("#job-state .queued").waitFor();
    await work("seen", (job) => api("/v1/acks", { acks: [{ lease: job.lease }] }));
    await page.locator("#job-state .done").waitFor();
    const answer = await fetch(`${edge}/jobs/${id}/delete`, { method: "POST", redirect: "manual" });
    check(answer.status === 403, `a change at an edge: ${answer.status}`);
  },
  // What axe finds, that nothing is too wide, and the way to a page by keyboard alone.
  async access() {
    const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
    for (const colorScheme of ["light", "dark"]) for (const width of [1280, 390]) {
      // axe is put into the page, which the policy forbids pages to do by themselves.
      const page = await open({ colorScheme, viewport: { width, height: 844 }, bypassCSP: true });
      for (const [name, path] of Object.entries(await pagesOf())) {
        await page.goto(base + path);
        await page.evaluate(axe);
        const { violations } = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }));
        for (const v of violations.filter((v) => ["serious", "critical"].includes(v.impact))) faults.push(`axe, ${name}, ${colorScheme}, ${width}: ${v.id}: ${v.nodes[0].target} ${v.nodes[0].failureSummary}`);
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        check(over <= 0, `${name} is ${over} px too wide at ${width}`);
      }
    }
    const page = await open();
    await page.goto(base);
    await page.keyboard.press("Tab");
    check(await page.evaluate(() => document.activeElement.className) === "skip", "the first stop is not the skip link");
    for (let i = 0; i < 3; i++) await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/dead$/);
  },
  async shots() {
    for (const colorScheme of ["light", "dark"]) for (const width of [1280, 390]) {
      const page = await open({ colorScheme, viewport: { width, height: width > 500 ? 860 : 844 } });
      for (const [name, path] of Object.entries(await pagesOf())) {
        await page.goto(base + path);
        await page.screenshot({ path: `${process.env.SHOTS}/${name}-${width}-${colorScheme}.png`, fullPage: true });
      }
    }
  },
};

try { await flows[process.argv[2]](); } catch (e) { faults.push(String(e.stack ?? e)); }
await chrome.close();
console.log(JSON.stringify(faults));
