// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Reservations: a project says how many creates of one kind it is about to send, and the pool makes
 * spares for them ahead, which no other project gets (pool_reservation.c).
 */
#include "sandbox/pool/pool_demand.h"

#define RESERVATION_COUNT_MAX       10000
#define RESERVATION_MS_MAX          UINT64_C(86400000) /* a day */
#define RESERVATION_MS              UINT64_C(600000)   /* where nothing is said */
#define RESERVATIONS_OF_PROJECT_MAX 8
#define RESERVATIONS_MAX            64

struct reservation;

struct reservation_ask { /* borrowed for the call */
	const char *project_id;
	const struct sandbox_spec *spec; /* of the creates that will come, with their key */
	uint64_t count, ms;
	const char *id; /* that it had before a restart; NULL = a new one */
};
must_check int reservation_new(struct fleet *fleet, const struct reservation_ask *ask,
                               struct reservation **ret, struct err *err);
struct reservation *reservation_find(const struct fleet *fleet, const char *project_id,
                                     const char *id); /* or NULL */
void reservations_each(const struct fleet *fleet, const char *project_id,
                       void (*fn)(const struct reservation *r, void *arg), void *arg);
void reservation_put_fields(const struct reservation *r,
                            struct json_writer *w); /* likewise, open */
void reservation_to_json(const struct reservation *r, struct json_writer *w, const char *name);
const char *reservation_id(const struct reservation *r);
/* Ends it with its spares, in the loop's next turn. */
void reservation_remove(struct reservation *r);
void reservations_remove_all(struct fleet *fleet, const char *project_id); /* it is removed */

/* For the pool itself. */
void reservations_init(struct pool *p);
void reservations_done(struct pool *p);
/* Sets their targets by the room that others leave. */
void reservations_look(struct pool *p, size_t room);
/* The project's oldest that has such a create to come; NULL: none. */
struct reservation *reservation_of(struct pool *p, const struct spare_kind *kind);
struct demand *reservation_demand(struct reservation *r);
/* A create that it was for has come; the last one ends it. */
void reservation_count(struct reservation *r);
/* That which has fewest, among those that lack a spare and whose project has no create under way;
 * NULL: none. */
struct demand *reservations_next(struct pool *p, struct share **ret_share);
size_t reservations_wanted(const struct pool *p);
