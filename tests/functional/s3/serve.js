// SPDX-License-Identifier: Apache-2.0
// An S3 server that checks signatures, with a bucket: serve.js DIRECTORY PORT
const S3rver = require("@20minutes/s3rver");

const [directory, port] = process.argv.slice(2);
require("fs").mkdirSync(directory, { recursive: true });
new S3rver({ directory, port: Number(port), address: "127.0.0.1", vhostBuckets: false, configureBuckets: [{ name: "audit", configs: [] }] }).run();
