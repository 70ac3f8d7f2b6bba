// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What an engine's guests do in their own way; all else of a guest's life is the same for all. A
 * kind is a table in its engine's files, and its engine names it. Where a function is NULL there is
 * nothing to be done.
 */
#include "engine/guest/start_steps.h"

struct memory_ops {
	void (*still)(void *arg); /* nothing of it runs, all is written: then release() */
	/* Once. err: nothing of use was written. The guest goes on in any case. */
	void (*done)(uint64_t bytes, const struct err *err, void *arg);
};

struct guest_kind {
	const struct start_step *steps; /* in their order; the last has no name */
	/* Its files are a disk of its own in its layer: what its kernel has not written yet is in
	 * no file of the host's, so that it has its part in a snapshot of its files, too. */
	bool has_own_disk;
	uint64_t disk_slack_bytes; /* that its layer needs beside the disk limit */
	void (*init)(struct guest *g), (*free)(struct guest *g); /* g->own */
	int (*check)(struct guest_host *host, const struct guest_spec *spec,
	             struct err *err); /* before anything is made */
	enum spawner_kind (*child)(const struct guest_spec *spec);
	struct guest_limits (*group_limits)(const struct guest_limits *limits); /* NULL: the same */
	uint64_t (*start_max_us)(const struct guest_spec *spec);                /* of its orders */
	/* Makes ready the memory that it starts from. done is told once, from the loop or from
	 * inside. */
	int (*prepare)(struct guest *g, void (*done)(struct guest *g, const struct err *err),
	               struct err *err);
	bool (*retry)(struct guest *g, const struct err *err); /* a start that failed, once more */
	int (*recover)(struct guest *g, struct err *err);      /* its agent does not listen */
	void (*serves)(struct guest *g);                       /* its agent, from now on */
	void (*stuck)(struct guest *g);                        /* something outside holds it */
	/* Saving it while it stands still for a moment, into the empty directory dir_fd, or -1:
	 * only its disk is to be whole. One at a time of a guest. */
	int (*check_memory)(struct guest_host *host, struct err *err); /* can it be saved here? */
	int (*save)(struct guest *g, int dir_fd, const struct snapshot_spec *spec,
	            const struct memory_ops *ops, void *arg, struct err *err);
	void (*saved)(int dir_fd);        /* this broker need not read it all again */
	void (*release)(struct guest *g); /* behind still() */
	void (*go_on)(struct guest *g);   /* behind done(), of one that was not to go on */
	void (*drop)(struct guest *g);    /* it is to be removed: what is under way ends */
	void (*snapshot_gone)(const char *id);
};

const struct guest_kind *guest_kind_of(uint32_t engine);
