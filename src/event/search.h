// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What somebody looks for in the event log or the audit log. An entry is found if it meets all that
 * was set. Nothing here says whose entries are looked at: that is the reader's filter (event.h),
 * which a search only narrows.
 */
#include "base/err.h"
#include "store/tables/events.h"

#define EVENT_SEARCH_BYTES_MAX 200 /* of a word */

struct event_search;

struct event_search *event_search_new(void);
void event_search_free(struct event_search *search); /* NULL is fine */

/*
 * Who asked for it: the id of a key, or the subject, the address or the name of a person as the
 * login provider tells them. Keys have names, too, which the log does not know: whoever knows them
 * adds the ids.
 */
must_check int event_search_set_who(struct event_search *search, const char *who, struct err *err);
void event_search_add_key(struct event_search *search, const char *key_id);
void event_search_end_keys(struct event_search *search); /* behind the last one */
/* From where: an address, a range such as "10.0.0.0/8", "unix:UID", or "unix" for all of those. */
must_check int event_search_set_address(struct event_search *search, const char *address,
                                        struct err *err);
/* A part of its type, of the ids of its sandbox, exec or request, of its agent, or of one of the
 * texts among its facts: a path, a route, what a path named. Large and small letters are the same.
 */
must_check int event_search_set_text(struct event_search *search, const char *text,
                                     struct err *err);
/* When: RFC 3339, or seconds of the wall clock. `since` is included, `until` is not. */
must_check int event_search_set_since(struct event_search *search, const char *text,
                                      struct err *err);
must_check int event_search_set_until(struct event_search *search, const char *text,
                                      struct err *err);

bool event_search_finds(const struct event_search *search, const struct event_row *row);
