// SPDX-License-Identifier: Apache-2.0
/*
 * A sandbox that trusts one of the wall's issuers names the files with its certificate, for
 * programs that have a store of their own. One whose policy has a key for SSH names the socket of
 * the signer.
 *
 * A sandbox that reaches nothing tells package managers not to try again. Names and addresses fail
 * at once there, and programs take that for a fault that passes: npm waits for 70 s and pip for 8
 * before they say what was wrong. Whoever opens the network later gets new execs and contexts
 * without these; what runs already keeps them.
 */
#include "sandbox/network/network_env.h"

#include "proto/signer.h"
#include "proto/trust.h"
#include "sandbox/model/sandbox_private.h"
#include "sandbox/network/network.h"

#include <assert.h>
#include <string.h>

static const char *const of_trust[] = {
	"SSL_CERT_FILE=" TRUST_BUNDLE, /* OpenSSL, Python, Ruby, Go */
	"REQUESTS_CA_BUNDLE=" TRUST_BUNDLE,
	"CURL_CA_BUNDLE=" TRUST_BUNDLE,
	"GIT_SSL_CAINFO=" TRUST_BUNDLE,
	"PIP_CERT=" TRUST_BUNDLE,
	"AWS_CA_BUNDLE=" TRUST_BUNDLE,
	"HTTPLIB2_CA_CERTS=" TRUST_BUNDLE, /* Google's client */
	"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=" TRUST_BUNDLE,
	"NODE_EXTRA_CA_CERTS=" TRUST_OWN, /* these add to their own */
	"DENO_CERT=" TRUST_OWN,
};
static const char *const of_signer[] = {"SSH_AUTH_SOCK=" SIGNER_SOCKET};
static const char *const of_nothing[] = {
	"npm_config_fetch_retries=0", /* pnpm, too */
	"PIP_RETRIES=1",              /* without a wait; it says what failed only if it retries */
	"YARN_HTTP_RETRY=0",
	"UV_HTTP_RETRIES=0",
	"CARGO_NET_RETRY=0",
};
static_assert(ARRAY_SIZE(of_trust) + ARRAY_SIZE(of_signer) <= NETWORK_ENV_MAX,
              "NETWORK_ENV_MAX is too small");
static_assert(ARRAY_SIZE(of_nothing) <= NETWORK_ENV_MAX, "NETWORK_ENV_MAX is too small");

static bool has_name(const json_t *env, const char *word)
{
	auto_free char *name = xstrndup(word, strcspn(word, "="));

	return env && json_object_get(env, name);
}

static void add(const char *const *words, size_t n, const json_t *env, const json_t *over,
                struct start *to)
{
	for (size_t i = 0; i < n; i++)
		if (!has_name(env, words[i]) && !has_name(over, words[i]))
			to->env[to->envc++] = xstrdup(words[i]);
}

void network_env_add(const struct sandbox *s, const json_t *env, const json_t *over,
                     struct start *to)
{
	if (network_has_signer(s))
		add(of_signer, ARRAY_SIZE(of_signer), env, over, to);
	if (network_is_trusted(s))
		add(of_trust, ARRAY_SIZE(of_trust), env, over, to);
	else if (!network_wants_door(network_policy(s)))
		add(of_nothing, ARRAY_SIZE(of_nothing), env, over, to);
}

bool network_env_is_trust(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(of_trust); i++)
		if (strcmp(word, of_trust[i]) == 0)
			return true;
	return false;
}
