// Node's ws against an echo: peer.js URL COMPRESSION, which is off, alone or takeover.
'use strict';

const assert = require('node:assert');
const { once } = require('node:events');
const WebSocket = require('ws');

const [url, compression] = process.argv.slice(2);
const MIB = 1 << 20;
const SIZES = [0, 1, 125, 126, 65_535, 65_536, MIB, 4 * MIB];
const CLIENTS = 50;
const PATIENCE_MS = 60_000;

async function open(target = url) {
  // Offers permessage-deflate by default.
  const client = new WebSocket(target, { maxPayload: 0, handshakeTimeout: PATIENCE_MS });
  client.queue = [];
  client.on('message', (data, isBinary) => {
    client.queue.push(isBinary ? data : data.toString());
    client.emit('queued');
  });
  client.on('close', () => client.emit('queued'));
  await once(client, 'open');
  return client;
}

async function receive(client) {
  while (client.queue.length === 0) {
    if (client.readyState === WebSocket.CLOSED) throw new Error('closed');
    await once(client, 'queued');
  }
  return client.queue.shift();
}

async function closed(client, code, reason) {
  const end = once(client, 'close');
  if (code) client.close(code, reason);
  const [got] = await end;
  return got;
}

const checks = {
  async sizes() {
    const client = await open();
    assert.strictEqual(client.extensions, compression === 'off' ? '' : 'permessage-deflate');
    for (const size of SIZES) {
      const text = 'é'.repeat(size >> 1) + 'x'.repeat(size & 1);
      client.send(text);
      assert.ok((await receive(client)) === text, `${size} bytes of text`);
      const bytes = Buffer.alloc(size, 0xa5);
      client.send(bytes);
      assert.ok(bytes.equals(await receive(client)), `${size} bytes`);
    }
    assert.strictEqual(await closed(client, 1000), 1000);
  },

  async fragments() {
    const client = await open();
    client.send('frag', { fin: false });
    client.send('ment', { fin: false });
    client.send('ed', { fin: true });
    assert.strictEqual(await receive(client), 'fragmented');
    await closed(client, 1000);
  },

  async crowd() {
    const one = async (number) => {
      const client = await open();
      const sent = Array.from({ length: 100 }, (_, i) => `${number}:${i}`.repeat(i + 1));
      for (const message of sent) client.send(message);
      for (const message of sent) assert.strictEqual(await receive(client), message);
      await closed(client, 1000);
    };
    await Promise.all(Array.from({ length: CLIENTS }, (_, number) => one(number)));
  },

  async pings() {
    const client = await open();
    for (const body of [Buffer.alloc(0), Buffer.from('k'), Buffer.alloc(125, 'p')]) {
      const pong = once(client, 'pong');
      client.ping(body);
      assert.ok(body.equals((await pong)[0]));
    }
    await closed(client, 1000);
  },

  async closeCodes() {
    for (const code of [1000, 1001, 3000, 4999]) {
      assert.strictEqual(await closed(await open(), code, 'bye'), code);
    }
  },

  async tooBig() {
    const client = await open();
    client.on('error', () => {});
    const end = closed(client);
    client.send(Buffer.alloc(4 * MIB + 1));
    assert.strictEqual(await end, 1009);
  },

  async refusal() {
    await assert.rejects(open(`${url}/nowhere`), /404/);
  },
};

async function main() {
  for (const [name, check] of Object.entries(checks)) {
    let timer;
    const patience = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error('it hangs')), 2 * PATIENCE_MS);
    });
    try {
      await Promise.race([check(), patience]);
      console.log(`ok node ${name}, compression ${compression}`);
    } catch (error) {
      console.log(`FAILED node ${name}, compression ${compression}: ${error.message}`);
    }
    clearTimeout(timer);
  }
  process.exit(0);
}

main();
