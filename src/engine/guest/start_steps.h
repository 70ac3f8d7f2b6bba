// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The state of a start, and the steps that all kinds share. */
#include "engine/guest/child_orders.h"
#include "engine/guest/guest.h"

#define START_OWN_FDS (6 + SHOWN_MAX + EROFS_BASES_MAX)

struct start { /* the fds are only for the child */
	struct guest *g;
	const struct start_step *next;
	loop_child_fn on_exit;
	void (*failed)(struct guest *g, const struct err *err); /* of a copy, later */
	struct jail jail;
	enum spawner_kind kind; /* of child */
	bool is_asked;          /* the spawner owes us a child */
	bool has_shown;         /* the disks that a vm looks into were cloned, or are being */
	int layer_fd, go_fd, agent_group_fd;
	int own_fds[START_OWN_FDS]; /* of the guest's kind */
	struct hatched child;
};

struct start_step {
	const char *name;
	/* Returns 1 if it waits for something; guest_go_on() then runs this step again. */
	int (*run)(struct start *s, struct err *err);
};

int start_make_dir(struct start *s, struct err *err);
int start_make_pipes(struct start *s, struct err *err);
int start_ask_spawner(struct start *s, struct err *err);
int start_make_groups(struct start *s, struct err *err);
int start_make_layer(struct start *s, struct err *err);
int start_take_child(struct start *s, struct err *err);
int start_listen(struct start *s, struct err *err);
int start_join_groups(struct start *s, struct err *err);
int start_await_copy(struct start *s, struct err *err);
int start_write_record(struct start *s, struct err *err);
