// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the daemon runs on, prepared by the launcher as root: directories with the right owners, the
 * lock, the gateway's user, the agent's binary, the listeners. The daemon's parts inherit what they
 * need of it.
 *
 *	DATA/           root 0711        DATA/gateway/   cloche 0700, the gateway's root directory
 *	DATA/wall.key   root 0600, read by the wall before it is confined
 *	DATA/admin.key  root 0600        DATA/layers…, templates: the engine's
 *	RUN/            root 0755        RUN/lock, RUN/cloche.sock (0660, group cloche)
 *	RUN/sandboxes/  root 0700
 */
#include "daemon/config/config.h"
#include "daemon/listen.h"

#define SITE_LISTENERS_MAX 16

struct site_listener {
	int fd;
	bool is_unix;
};

struct site {
	const struct config *config; /* borrowed */
	uid_t uid;                   /* the gateway's */
	gid_t gid;
	int lock_fd;
	int agent_fd;  /* sealed memfd */
	int vmm_fd;    /* likewise, cloche-vmm; -1: it is not there */
	int member_fd; /* likewise, cloche-cluster; -1: this node is alone */
	char *kernels_dir;
	char *doctor; /* what this host can do, as JSON; NULL: not known */
	struct site_listener listeners[SITE_LISTENERS_MAX];
	size_t n_listeners;
};

/* Opens cloche-cluster beside this program; its package may be missing. */
must_check int site_open_member(int *ret_fd, struct err *err);
/* Opens the agent beside this program. */
must_check int site_open_agent(int *ret_fd, struct err *err);
void site_init(struct site *s, const struct config *config);
/* -EALREADY: another daemon holds this run directory. */
must_check int site_prepare(struct site *s, struct err *err);
/* Removes the socket, the lock, and empty directories. */
void site_clear(struct site *s);
void site_done(struct site *s); /* closes the fds */
must_check int site_open_key(const struct site *s, int *ret_fd, struct err *err); /* admin.key */
void site_drop_empty_key(const struct site *s);
