// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Calls of lower folders into higher ones. fleet_new() sets all three tables. */
#include "sandbox/model/sandbox.h"

struct pool;
struct share;
struct spare;

struct lifecycle_ops {
	int (*save)(const struct sandbox *s, struct err *err); /* its row */
	void (*next)(struct sandbox *s); /* the step of its create that was under way is done */
	void (*fail_create)(struct sandbox *s, const struct err *err);
	/* Deletes a sandbox that runs, but whose creator is told that the create failed. */
	void (*undo_create)(struct sandbox *s, const struct err *err);
	/* detail: figures, or NULL; taken */
	void (*end)(struct sandbox *s, enum end_cause cause, json_t *detail, const char *message);
	void (*retain)(struct sandbox *s); /* remembers an ended one for a while */
};

struct spare_kind { /* of which a spare would do; all is borrowed */
	const char *project_id;
	struct share *share; /* NULL: there are none */
	uint32_t engine;
	const struct template *template; /* NULL: host */
	const struct guest_limits *limits;
	bool has_door; /* one with a door is preferred (network_ahead()); else it has none */
};

struct spare_ops { /* pool/pool.h, pool/warm_copy.h and pool/warm_up.h say more */
	void (*look)(struct pool *p);
	struct sandbox *(*offer)(struct pool *p, const struct spare_kind *kind);
	void (*take)(struct sandbox *s);
	struct share *(*share)(const struct spare *spare);
	bool (*is_short)(const struct spare *spare);
	void (*on_up)(struct sandbox *s);
	void (*on_warm)(struct sandbox *s);
	void (*on_failed)(struct sandbox *s, const struct err *err);
	void (*on_gone)(struct sandbox *s);
	void (*end_warm_up)(struct sandbox *s);
	void (*start_from_copy)(struct sandbox *s, bool has_interpreters);
	bool (*is_created_anew)(struct sandbox *s, const struct err *err);
	void (*on_booted)(struct sandbox *s);
	void (*drop_copies)(struct fleet *fleet, const struct digest *image);
	size_t (*count_copies)(const struct fleet *fleet, const struct digest *image);
	void (*settle_copies)(struct fleet *fleet);
};

/* Things on the host's disk that do not run but are charged for. The table ends with an empty
 * row. */
struct stored_kind {
	const char *prefix;                /* of its ids */
	void (*tick)(struct fleet *fleet); /* charges their disk up to now */
	bool (*is_known)(const struct fleet *fleet, const char *id);
	/* How many use this image; NULL: this kind never does. */
	size_t (*count_image)(const struct fleet *fleet, const struct digest *image);
};
