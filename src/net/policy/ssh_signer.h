// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Signs for programs inside that log in by SSH, with keys that stay outside. It speaks the protocol
 * of ssh-agent (draft-ietf-sshm-ssh-agent), so every ssh program knows it, and signs one thing
 * alone: a login at a host that the policy names, as a user that it names.
 *
 *	program --> session-bind@openssh.com: host key, session id, the host's signature over it
 *	        --> which keys are there? those that may be used with that host
 *	        --> sign: session id, user, "ssh-connection", "publickey", algorithm, key
 *
 * The session id is a hash over both sides' random numbers and the host key, and the host's
 * signature over it shows that the host took part. So what is signed is good for that one
 * connection to that host and for nothing else, whoever is root inside, and through however many
 * others the connection is led. Without a binding nothing is signed.
 */
#include "base/buf.h"
#include "net/policy/judge.h"

#define SSH_SIGNER_MESSAGE_MAX ((size_t)16 * 1024)
#define SSH_SESSION_ID_MIN     32 /* a hash that is not SHA-1 */
#define SSH_SESSION_ID_MAX     64

/* One connection to it. */
struct ssh_signer {
	bool is_asked; /* for a binding, which comes once */
	bool is_bound;
	uint8_t session_id[SSH_SESSION_ID_MAX];
	size_t session_id_len;
	struct buf host_key; /* in SSH's form */
};

enum ssh_signer_outcome {
	SIGNER_TOLD,   /* nothing of weight */
	SIGNER_SIGNED, /* by the rule */
	SIGNER_REFUSED,
};

struct ssh_signer_report {
	enum ssh_signer_outcome outcome;
	size_t rule;     /* or JUDGE_NO_RULE */
	const char *why; /* it was refused */
};

void ssh_signer_init(struct ssh_signer *s);
void ssh_signer_done(struct ssh_signer *s);
bool ssh_signer_is_costly(const void *message, size_t len); /* it computes for it */
/* Answers one message, without its length; the answer comes with one. Whatever the message is, it
 * has an answer. < 0: out has no room. */
must_check int ssh_signer_answer(struct ssh_signer *s, const struct policy *p,
                                 const struct range_site *site, const void *message, size_t len,
                                 struct buf *out, struct ssh_signer_report *ret);
