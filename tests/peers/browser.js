// Chromium against an echo: browser.js CHROMIUM PROFILE PAGE. Prints what the page writes.
'use strict';

const { spawn } = require('node:child_process');
const { once } = require('node:events');
const WebSocket = require('ws');

const [chromium, profile, page] = process.argv.slice(2);
const PATIENCE_MS = 120_000;
const LOOK_MS = 100;

async function main() {
  const browser = spawn(chromium, ['--headless', '--no-sandbox', '--disable-gpu',
    `--user-data-dir=${profile}`, '--remote-debugging-port=0', 'about:blank']);
  const end = Date.now() + PATIENCE_MS;
  setTimeout(() => browser.kill('SIGKILL'), PATIENCE_MS).unref();
  let said = '';
  while (!/DevTools listening on (\S+)/.test(said)) {
    said += (await once(browser.stderr, 'data'))[0];
  }
  browser.stderr.resume();
  const devtools = new WebSocket(/DevTools listening on (\S+)/.exec(said)[1]);
  await once(devtools, 'open');

  // One call after the other, so that the answer is the first message with its number.
  let last = 0;
  const call = async (method, params, sessionId) => {
    const id = ++last;
    devtools.send(JSON.stringify({ id, method, params, sessionId }));
    for (;;) {
      const answer = JSON.parse((await once(devtools, 'message'))[0]);
      if (answer.id === id) return answer.result;
    }
  };
  const { targetId } = await call('Target.createTarget', { url: page });
  const { sessionId } = await call('Target.attachToTarget', { targetId, flatten: true });
  let lines = '';
  while (!lines.endsWith('done\n')) {
    if (Date.now() > end) throw new Error(`the page did not come to an end: ${lines}`);
    await new Promise((resolve) => { setTimeout(resolve, LOOK_MS); });
    const expression = 'document.getElementById("lines")?.textContent ?? ""';
    const { result } = await call('Runtime.evaluate', { expression }, sessionId);
    lines = result.value ?? '';
  }
  process.stdout.write(lines.slice(0, -'done\n'.length));
  await call('Browser.close', {});
  browser.kill();
}

main().then(() => process.exit(0), (error) => {
  console.log(`FAILED browser: ${error.message}`);
  process.exit(0);
});
