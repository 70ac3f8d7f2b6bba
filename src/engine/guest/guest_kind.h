// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The parts of a guest's life that differ between engines. Each engine has a table of this type. If
 * a function is NULL, there is nothing to do.
 */
#include "engine/guest/start_steps.h"

struct memory_ops {
	void (*still)(void *arg); /* it is stopped and all is written; release() follows */
	/* Called once. With err, nothing useful was written. The guest goes on in any case. */
	void (*done)(uint64_t bytes, const struct err *err, void *arg);
};

struct guest_kind {
	const struct start_step *steps; /* in their order; the last has no name */
	/* Its files are in a disk image in its layer. Data that its kernel has not written yet is
	 * in no host file, so the guest must also take part in a snapshot without memory. */
	bool has_own_disk;
	uint64_t disk_slack_bytes; /* extra space that its layer needs */
	void (*init)(struct guest *g), (*free)(struct guest *g); /* g->own */
	int (*check)(struct guest_host *host, const struct guest_spec *spec,
	             struct err *err); /* before anything is made */
	enum spawner_kind (*child)(const struct guest_spec *spec);
	struct guest_limits (*group_limits)(const struct guest_limits *limits); /* NULL: the same */
	uint64_t (*start_max_us)(const struct guest_spec *spec);                /* of its orders */
	/* Prepares the memory that it starts from. done is called once, from the loop or from
	 * inside. */
	int (*prepare)(struct guest *g, void (*done)(struct guest *g, const struct err *err),
	               struct err *err);
	bool (*retry)(struct guest *g, const struct err *err); /* a start that failed, once more */
	int (*recover)(struct guest *g, struct err *err);      /* its agent does not listen */
	void (*serves)(struct guest *g);                       /* its agent, from now on */
	void (*stuck)(struct guest *g);                        /* something outside holds it */
	/* Saves it while it is stopped for a moment, into the empty directory dir_fd; -1: only its
	 * disk must be consistent. One at a time for each guest. */
	int (*check_memory)(struct guest_host *host, struct err *err); /* can it be saved here? */
	int (*save)(struct guest *g, int dir_fd, const struct snapshot_spec *spec,
	            const struct memory_ops *ops, void *arg, struct err *err);
	void (*saved)(int dir_fd);        /* this broker need not read it all again */
	void (*release)(struct guest *g); /* behind still() */
	void (*go_on)(struct guest *g);   /* after done(), for a guest that was not to go on */
	void (*drop)(struct guest *g);    /* it is to be removed: ends a save under way */
	void (*snapshot_gone)(const char *id);
};

const struct guest_kind *guest_kind_of(uint32_t engine);
