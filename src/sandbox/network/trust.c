// SPDX-License-Identifier: Apache-2.0
/*
 * The certificate of the issuer that programs inside must trust is added to the bundle that
 * OpenSSL, Python, curl, git and apt read, also stored by itself where update-ca-certificates finds
 * it, and named in variables for programs with their own store (network_env.h). The key is in the
 * wall and never comes inside. It is installed anew each time the sandbox starts: nothing is
 * assumed about its files.
 */
#include "proto/trust.h"
#include "base/log.h"
#include "sandbox/model/sandbox_private.h"
#include "sandbox/network/network_private.h"

#include <string.h>

static const struct start trust_op = {
	.kind = START_FILE,
	.op = FILE_TRUST,
	.user = (char[]){"root"},
	.path = (char[]){TRUST_BUNDLE},
	.path2 = (char[]){TRUST_OWN},
	.flags = FILE_PARENTS | FILE_MODE,
	.mode = 0644,
};

bool trust_is_needed(const struct sandbox *s, const struct policy *p)
{
	const char *own = s->fleet->config.own_project_id;

	return own && strcmp(s->project_id, own) == 0 ? policy_opens_tls(p) : policy_needs_trust(p);
}

bool network_needs_trust(const struct sandbox *s)
{
	return trust_is_needed(s, network_policy(s));
}

bool network_is_trusted(const struct sandbox *s)
{
	return s->network && s->network->is_trusted &&
	       trust_is_needed(s, network_wanted(s->network));
}

bool network_has_trust(const struct sandbox *s)
{
	const struct network *n = s->network;

	return s->drops_trust || (n && (n->is_trusted || trust_is_needed(s, network_wanted(n))));
}

void trust_forget(struct network *n)
{
	install_cancel(take_ptr(n->trust));
	free(take_ptr(n->certificate));
	n->is_trusted = false;
}

static void on_trusted(const struct err *err, void *arg)
{
	struct network *n = arg;

	n->trust = NULL;
	n->is_trusted = !err;
	if (err)
		log_warn("sandbox.not_trusted", "id=%s error='%s'", n->sandbox->id, err->message);
	door_step(n);
}

bool network_is_paused(const struct sandbox *s)
{
	return s->state == SANDBOX_PAUSING || s->state == SANDBOX_PAUSED;
}

void trust_begin(struct network *n)
{
	if (n->certificate && !n->is_trusted && !n->trust && !network_is_paused(n->sandbox))
		n->trust = install_new(n->sandbox, &trust_op, n->certificate, on_trusted, n);
}

void trust_take(struct network *n, const char *certificate)
{
	const bool is_own = policy_opens_tls(network_wanted(n));

	if (!certificate[0] || !trust_is_needed(n->sandbox, network_wanted(n)) ||
	    (n->certificate && n->is_own == is_own))
		return;
	trust_forget(n);
	n->certificate = xstrdup(certificate);
	n->is_own = is_own;
}

static void on_dropped(const struct err *err, void *arg)
{
	struct network *n = arg;

	n->trust = NULL;
	if (err)
		log_warn("sandbox.trusts_old_ca", "id=%s error='%s'", n->sandbox->id, err->message);
	network_begin(n->sandbox);
}

void trust_drop(struct network *n)
{
	n->trust = install_new(n->sandbox, &trust_op, "", on_dropped, n);
}

void network_go_on(struct sandbox *s)
{
	if (!s->network)
		return;
	trust_begin(s->network);
	signer_begin(s->network);
}
