// The origins of requests behind nginx, with and without `proxy_set_header Host`, over HTTP and HTTPS. See tests/page/run --proxies.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Broker, freePorts } from "./broker.mjs";
import { launch } from "./browser.mjs";
import { check, total } from "./checks.mjs";
import { OtherSite, twoOrigins } from "./origins.mjs";

/** The names of the broker and of the other site. Browsers trust only names of this machine without TLS, so these say what happens elsewhere. */
const [NAME, EVIL] = ["mq.test", "evil.test"];

class Nginx {
  /** Starts nginx in front of a port. It listens on a port for each of the four ways. */
  static async start(upstream) {
    const nginx = new Nginx();
    nginx.folder = mkdtempSync(join(tmpdir(), "sluice-nginx-"));
    const pem = join(nginx.folder, "server.pem");
    const options = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", `/CN=${NAME}`, "-keyout", pem, "-out", `${pem}.crt`];
    execFileSync("openssl", ["req", "-x509", ...options], { stdio: "ignore" });
    const ports = await freePorts(4);
    nginx.ways = [];
    for (const secure of [false, true]) for (const keepsHost of [false, true]) nginx.ways.push({ secure, keepsHost, port: ports[nginx.ways.length] });
    const servers = nginx.ways.map(({ secure, keepsHost, port }) => {
      const tls = secure ? `ssl_certificate ${pem}.crt; ssl_certificate_key ${pem};` : "";
      const host = keepsHost ? "proxy_set_header Host $http_host;" : "";
      return `server { listen 127.0.0.1:${port}${secure ? " ssl" : ""}; ${tls} location / { proxy_pass http://127.0.0.1:${upstream}; ${host} } }`;
    });
    const files = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((what) => `${what}_temp_path ${nginx.folder}/${what};`);
    const configuration = `daemon off; error_log stderr; pid ${nginx.folder}/pid; events {} http { access_log off; ${files.join(" ")} ${servers.join(" ")} }`;
    writeFileSync(join(nginx.folder, "nginx.conf"), configuration);
    nginx.process = spawn(process.env.NGINX_BIN, ["-p", nginx.folder, "-c", join(nginx.folder, "nginx.conf")], { stdio: ["ignore", "ignore", "inherit"] });
    for (let tries = 0; tries < 600; tries++) {
      if (nginx.process.exitCode !== null) break;
      try {
        await fetch(`http://127.0.0.1:${ports[0]}/`);
        return nginx;
      } catch {
        await new Promise((done) => setTimeout(done, 100));
      }
    }
    throw new Error("nginx did not start");
  }

  async stop() {
    const ended = new Promise((done) => this.process.once("exit", done));
    this.process.kill("SIGTERM");
    await ended;
    rmSync(this.folder, { recursive: true, force: true });
  }
}

const browser = await launch(`--host-resolver-rules=MAP ${NAME} 127.0.0.1, MAP ${EVIL} 127.0.0.1`);
const site = await OtherSite.start();
try {
  for (const allowed of [false, true]) {
    // The names of nginx's ports are known when nginx runs, so the broker starts again.
    const broker = await Broker.start(process.env.SLUICE_BIN, { password_hashing: "sha256" });
    const nginx = await Nginx.start(broker.http);
    const names = nginx.ways.map(({ port }, i) => [`management.allowed_hosts.${i}`, `${NAME}:${allowed ? port : 1}`]);
    await broker.down();
    await broker.up({ password_hashing: "sha256", ...Object.fromEntries(names) });
    try {
      for (const { secure, keepsHost, port } of nginx.ways) {
        const scheme = secure ? "https" : "http";
        const passes = secure || keepsHost || allowed;
        const way = `over ${scheme}, nginx ${keepsHost ? "keeps" : "replaces"} Host, management.allowed_hosts ${allowed ? "names" : "does not name"} it`;
        await check(`the own page ${passes ? "passes" : "is refused"}, another is refused: ${way}`, () => twoOrigins(browser, broker, `${scheme}://${NAME}:${port}`, `http://${EVIL}:${site.port}/`, passes));
      }
    } finally {
      await nginx.stop();
      await broker.stop();
    }
  }
} finally {
  await browser.close();
  await site.stop();
}
console.log(`proxies: ${total.passed} passed, ${total.failed} failed`);
process.exit(total.failed === 0 ? 0 : 1);
