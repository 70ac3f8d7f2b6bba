// SPDX-License-Identifier: Apache-2.0
/*
 * The way to the signer inside (proto/signer.h): a relay, its socket, and the host keys of the
 * policy, so that ssh asks nobody whether a host is the right one. It protects nothing: the signer
 * itself looks at the host's key. It is made anew each time the sandbox starts, and removed when no
 * rule has a key any more. If it cannot be made, the policy is in force all the same.
 */
#include "base/log.h"
#include "proto/signer.h"
#include "sandbox/model/sandbox_private.h"
#include "sandbox/network/network_private.h"

#include <string.h>

#define KNOWN_HOSTS_MAX ((size_t)6 * 1024 * 1024) /* a policy's names, for 4 ports and 16 keys */

static const struct start signer_op = {
	.kind = START_FILE,
	.op = FILE_SIGNER,
	.user = (char[]){"root"},
	.path = (char[]){SIGNER_SOCKET},
	.path2 = (char[]){SIGNER_KNOWN_HOSTS},
	.flags = FILE_PARENTS | FILE_MODE,
	.mode = 0644,
};

bool network_has_signer(const struct sandbox *s)
{
	return s->network && s->network->has_signer && policy_has_ssh(network_policy(s));
}

void signer_forget(struct network *n)
{
	install_cancel(take_ptr(n->signer));
	free(take_ptr(n->known_hosts));
	n->has_signer = false;
}

static void on_made(const struct err *err, void *arg)
{
	struct network *n = arg;

	n->signer = NULL;
	n->has_signer = !err && n->known_hosts;
	if (err)
		log_warn("sandbox.no_signer", "id=%s error='%s'", n->sandbox->id, err->message);
	signer_begin(n); /* the policy may be another by now */
	door_step(n);
}

/* What is wanted: NULL: nothing. */
static char *find_wanted(const struct network *n)
{
	const struct policy *p = network_wanted(n);
	auto_call(buf_done) struct buf text = BUF_INIT(KNOWN_HOSTS_MAX);

	if (!policy_has_ssh(p) || policy_put_known_hosts(p, &text) < 0)
		return NULL;
	return xstrdup(buf_str(&text));
}

void signer_begin(struct network *n)
{
	auto_free char *wanted = NULL;

	if (n->signer || network_is_paused(n->sandbox))
		return;
	wanted = find_wanted(n);
	if (wanted && n->known_hosts ? strcmp(wanted, n->known_hosts) == 0
	                             : wanted == n->known_hosts)
		return;
	free(n->known_hosts);
	n->known_hosts = take_ptr(wanted);
	n->signer = install_new(n->sandbox, &signer_op, n->known_hosts ? n->known_hosts : "",
	                        on_made, n);
}
