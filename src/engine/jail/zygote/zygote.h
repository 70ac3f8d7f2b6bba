// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A zygote: one warm interpreter per template and language, jailed (zygote_child.h), that is forked
 * into sandboxes on demand (kernels/python/cloche_kernel/zygote.py).
 *
 *	none --> starting --> ready
 *	  ^---------+-----------+    it ended, or was killed for what it said
 *
 * It runs a template's code, so it is not trusted: a fork counts only once the sandbox's agent has
 * checked it. A zygote that is slow, silent or sends nonsense is killed and replaced, after a
 * longer pause each time until one has worked; meanwhile interpreters start the ordinary way. All
 * calls are made on the loop's thread.
 */
#include "base/list.h"
#include "engine/engine.h"

struct zygote {
	struct guest_host *host;
	struct digest image; /* of its template; zero = host */
	char group[24];      /* among the sandboxes' cgroups; no id looks like it */
	const char *warm;    /* modules, parted by commas; NULL: there is to be no zygote */
	bool is_ready, is_given_up;
	int fd, status_fd;
	struct loop_child *child;
	struct loop_io *io;
	struct loop_timer *timer; /* starting: its end; none: the next try */
	uint64_t delay_us;
	unsigned n_deaths;   /* since the last fork that went well */
	unsigned n_failures; /* of its kind, one after the other, before it got ready */
	uint64_t last_number;
	struct list waits;
	size_t n_waits;
};

/* group: no other zygote may have it. */
void zygote_init(struct zygote *z, struct guest_host *host, const struct digest *image,
                 const char *group, const char *warm);
/* Ends it; waiting callers are told. The last fork may still be in its group, which can be removed
 * later too. */
void zygote_done(struct zygote *z);
must_check int zygote_remove_group(const struct zygote *z, uint64_t most_us);
void zygote_start(struct zygote *z);
void zygote_suspect(struct zygote *z, const char *why); /* kills it; it is replaced */
/* fn is called once, from the loop, when the fork was sent to the sandbox's agent or has failed.
 * tag: by this the agent knows it. */
must_check int zygote_fork(struct zygote *z, const char *id, pid_t agent, uint32_t open_files,
                           const char *tag, guest_forked_fn fn, void *arg, struct err *err);
