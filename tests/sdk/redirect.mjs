// SPDX-License-Identifier: Apache-2.0
// Loaded before a program (node --import): what it sends to a provider of models goes to the scripted one instead.
const PROVIDERS = new Set(["api.openai.com", "api.anthropic.com", "ai-gateway.vercel.sh"]);
const real = globalThis.fetch;

globalThis.fetch = (to, init) => {
  const url = new URL(to instanceof Request ? to.url : to);
  if (!PROVIDERS.has(url.host)) throw new Error(`${url} is none of the providers`);
  return real(process.env.MODELS_URL + url.pathname + url.search, to instanceof Request ? to : init);
};
