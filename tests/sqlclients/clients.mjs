// Reads a node by one of libSQL's clients, as the first argument says, and
// prints what it saw as a line of JSON. The environment has SQL_URL, SQL_TOKEN
// and, for the browser, PAGES: the ports of an origin that the node lets in and
// of one that it does not, and CHROMIUM.
import { createServer } from "node:http";

const url = process.env.SQL_URL;
const authToken = process.env.SQL_TOKEN;
const health = "select queue, queued, last_error from queue_health where queue = ? order by queue";

// refusal is what a client says of something that must fail.
async function refusal(attempt) {
  try {
    await attempt();
    return "nothing was refused";
  } catch (error) {
    return `${error.code ?? ""} ${error.message}`.trim();
  }
}

// libsql reads by @libsql/client, of whatever entry point.
export async function libsql(createClient, url, authToken) {
  const db = createClient({ url, authToken });
  const one = await db.execute({ sql: health, args: ["mail"] });
  const batch = await db.batch(["select 1 as a", { sql: "select :x || 'y' as b", args: { x: "x" } }], "read");
  const tx = await db.transaction("read");
  const first = await tx.execute("select count(*) as n from jobs_recent");
  await tx.execute("select 1");
  await tx.commit();
  return {
    rows: one.rows.map((row) => ({ ...row })),
    batch: [batch[0].rows[0].a, batch[1].rows[0].b],
    jobs: first.rows[0].n,
    blob: new Uint8Array((await db.execute("select x'00ff10' as b")).rows[0].b).join(),
    dead: (await db.execute("select error_fp from dead_letters")).rows[0].error_fp.length,
    write: await refusal(() => db.execute("delete from jobs")),
    wrong: await refusal(() => createClient({ url, authToken: "wrong" }).execute("select 1")),
    payload: (await db.execute("select count(payload) as n from job")).rows[0].n,
  };
}

const clients = {
  async node() {
    const { createClient } = await import("@libsql/client");
    return libsql(createClient, url, authToken);
  },
  async web() {
    const { createClient } = await import("@libsql/client/web");
    return libsql(createClient, url, authToken);
  },
  async serverless() {
    const { connect } = await import("@tursodatabase/serverless");
    const db = connect({ url, authToken });
    const statement = await db.prepare(health);
    const rows = await statement.all(["mail"]);
    return {
      rows: rows.map(({ queue, queued, last_error }) => ({ queue, queued, last_error })),
      batch: (await db.batch(["select 1", "select 2"])) && true,
      write: await refusal(async () => (await db.prepare("delete from jobs")).run()),
      wrong: await refusal(async () => (await connect({ url, authToken: "wrong" }).prepare("select 1")).all()),
    };
  },
  async drizzle() {
    const { drizzle } = await import("drizzle-orm/libsql");
    const { sqliteTable, text, integer } = await import("drizzle-orm/sqlite-core");
    const { eq } = await import("drizzle-orm");
    const queueHealth = sqliteTable("queue_health", {
      queue: text("queue"), queued: integer("queued"), lastError: text("last_error"),
    });
    const db = drizzle({ connection: { url, authToken } });
    const rows = await db.select().from(queueHealth).where(eq(queueHealth.queue, "mail"));
    const inside = await db.transaction((tx) => tx.select({ queued: queueHealth.queued }).from(queueHealth), { behavior: "immediate" });
    return {
      rows: rows.map(({ queue, queued, lastError }) => ({ queue, queued, last_error: lastError })),
      inside: inside.length,
      write: await refusal(async () => {
        try {
          await db.insert(queueHealth).values({ queue: "x" });
        } catch (error) {
          throw error.cause ?? error;
        }
      }),
    };
  },
  async browser() {
    const { build } = await import("esbuild");
    const { chromium } = await import("playwright-core");
    const bundle = await build({
      stdin: {
        contents: `import { createClient } from "@libsql/client/web";\nconst refusal = ${refusal};\nconst health = ${JSON.stringify(health)};\n` +
          `${libsql}\nglobalThis.read = (url, token) => libsql(createClient, url, token);`,
        resolveDir: process.cwd(),
      },
      bundle: true, write: false, format: "iife", platform: "browser",
    });
    const page = (request, response) => {
      response.setHeader("content-type", "text/html");
      response.end(`<!doctype html><title>read</title><script>${bundle.outputFiles[0].text.replaceAll("</script", "<\\/script")}</script>`);
    };
    const ports = process.env.PAGES.split(",");
    const servers = await Promise.all(ports.map((port) => new Promise((resolve) => {
      const server = createServer(page).listen(Number(port), "127.0.0.1", () => resolve(server));
    })));
    const browser = await chromium.launch({
      executablePath: process.env.CHROMIUM,
      args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync"],
    });
    try {
      const see = async (port) => {
        const tab = await browser.newPage();
        await tab.goto(`http://127.0.0.1:${port}/`);
        return tab.evaluate(([url, token]) => globalThis.read(url, token).catch((error) => ({ failed: String(error) })), [url, authToken]);
      };
      return { ...(await see(ports[0])), stranger: (await see(ports[1])).failed };
    } finally {
      await browser.close();
      servers.forEach((server) => server.close());
    }
  },
};

console.log(JSON.stringify(await clients[process.argv[2]]()));
