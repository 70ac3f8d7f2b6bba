// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Pushes the event log and the audit log to an S3-compatible store. Each chain goes there in
 * pieces, one object each:
 *
 *	PREFIX/PROJECT/events/00000000000000000001-00000000000000000250-2f1c4e….jsonl
 *
 * The lines of the entries, then a seal of the last one. The names begin with the first and the
 * last number, so that they are in the chain's order, and end with the beginning of the last hash,
 * which covers all before it: the same name is the same content, and another content has another
 * name. So an object is never overwritten. `cloche audit verify` checks what was downloaded.
 *
 * One piece is under way at a time. What is to be in it is written down before it is sent, so that
 * it is the same after a crash; how far each chain has come is written down after it was taken.
 * What retention has removed before it was sent is told by an event, and by an object of its own
 * that has only a seal, which says so.
 */
#include "audit/sink.h"
#include "event/seal.h"
#include "object/object_sign.h"
#include "outgoing/outgoing_call.h"
#include "store/store.h"

struct object_push;

struct object_push_config { /* all of it is borrowed */
	struct outgoing outgoing;
	struct event_log *events;
	struct store *store;
	const struct seal_key *seal_key;
	const struct object_credentials *credentials;
	const char *url; /* ENDPOINT/BUCKET[/PREFIX], as object_url_check() has it */
	const char *region;
	uint64_t interval_us; /* between two looks at what is new */
};

/* field is the setting's name, for the error. */
must_check int object_url_check(const char *url, const char *field, struct err *err);
must_check int object_push_open(const struct object_push_config *config, struct object_push **ret,
                                struct err *err);
void object_push_close(struct object_push *p); /* NULL is fine */
void object_push_status(const struct object_push *p, struct sink_status *ret);
