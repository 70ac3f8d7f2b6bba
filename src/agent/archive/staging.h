// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a bundle brings, made beside the tree that it is for: everything is there, with its content,
 * owner, mode and attributes, before anything is put in its place. A rename puts it there, and
 * needs one filesystem: `/usr`, which may be another, has a staging directory of its own.
 */
#include "base/buf.h"
#include "base/err.h"
#include "proto/bundle.h"

#define STAGING_NAME ".cloche.new" /* in "/" and /usr; what a killed one left is the next one's */

struct staging;

must_check int staging_open(const char *root, struct staging **ret, struct err *err);
void staging_close(struct staging *s); /* NULL is fine; removes what was not put in place */
/* Entries, attributes, data and deletes, in the bundle's order. Takes *r's strings. */
must_check int staging_take(struct staging *s, struct bundle_record *r, struct err *err);
/* Behind the last one: is each path that is to be checked what it was when the bundle was made? */
must_check int staging_check(struct staging *s, struct err *err);
/* Puts all in place: first what goes, from the last to the first, then what comes. */
must_check int staging_apply(struct staging *s, struct err *err);
uint64_t staging_count(const struct staging *s);
