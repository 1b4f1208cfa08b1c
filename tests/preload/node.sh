#!/usr/bin/env bash
# Node.js: strings, maps, buffers outside of the garbage-collected heap, compression
# and hashing in its thread pool, and worker threads that come and go, without and with
# the library.
#	node.sh LIBRARY WITNESS
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need node

cat >"$work/work.js" <<'JS'
'use strict';
const crypto = require('crypto');
const zlib = require('zlib');
const { promisify } = require('util');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');

const hash = (data) => crypto.createHash('sha256').update(data).digest('hex');

function churn(seed) {
	const map = new Map();
	const buffers = [];
	for (let i = 0; i < 5000; i++) {
		map.set(`key ${(i * seed) % 10007}`, { i, text: 'x'.repeat(i % 97) });
		buffers.push(Buffer.alloc((i * seed) % 20000, i % 251));
		if (buffers.length > 500)
			buffers.splice((i * 31) % 400, 100);
	}
	return hash(JSON.stringify([...map])) + hash(Buffer.concat(buffers));
}

async function compress(i) {
	const data = Buffer.from(`line ${i} `.repeat(20000));
	const packed = await promisify(zlib.deflate)(data, { level: 1 + (i % 9) });
	const same = (await promisify(zlib.inflate)(packed)).equals(data);
	return `${i} ${same} ${hash(await promisify(crypto.scrypt)(`${i}`, 'salt', 32))}`;
}

function inWorker(seed) {
	return new Promise((resolve, reject) => {
		const worker = new Worker(__filename, { workerData: seed });
		worker.once('message', resolve);
		worker.once('error', reject);
	});
}

async function main() {
	console.log(churn(7919));
	for (let round = 0; round < 2; round++)
		console.log(await Promise.all([11, 13, 17, 19].map(inWorker)));
	console.log(await Promise.all([...Array(20).keys()].map(compress)));
}

if (isMainThread)
	main();
else
	parentPort.postMessage(churn(workerData));
JS

node "$work/work.js" >"$work/without.txt"
with_library node "$work/work.js" >"$work/with.txt"
[[ $(wc -l <"$work/with.txt") -gt 25 ]] || fail "the script did not run to its end"
expect_same "$work/without.txt" "$work/with.txt"
expect_used node
