// SPDX-License-Identifier: Apache-2.0
// A new Math.random for a process that was copied: V8 seeds its own once, and two copies would go on alike.
//
// The generator is xoshiro128**, seeded from the host's random bytes. node:crypto draws from OpenSSL, and
// randomUUID() from a stock of it that is used up here.
'use strict';

const crypto = require('node:crypto');

const UUID_STOCK = 128; // how many node:crypto keeps ahead

function renew(seed) {
	const state = new Uint32Array(4);

	seed.subarray(0, 32).forEach((byte, i) => {
		state[i & 3] = (state[i & 3] << 8 | state[i & 3] >>> 24) ^ byte ^ (i + 1); // never all zero
	});
	const next = () => {
		const product = Math.imul(state[1], 5);
		const result = Math.imul(product << 7 | product >>> 25, 9) >>> 0;
		const shifted = state[1] << 9;

		state[2] ^= state[0];
		state[3] ^= state[1];
		state[1] ^= state[2];
		state[0] ^= state[3];
		state[2] ^= shifted;
		state[3] = state[3] << 11 | state[3] >>> 21;
		return result;
	};
	const random = { random: () => ((next() >>> 5) * 0x4000000 + (next() >>> 6)) / 0x20000000000000 }.random;

	for (let i = 0; i < 8; i++)
		next();
	Object.defineProperty(Math, 'random', { value: random, writable: true, configurable: true });
	for (let i = 0; i < UUID_STOCK; i++)
		crypto.randomUUID();
}

module.exports = { renew };
