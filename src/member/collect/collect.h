// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Removes from the store what no row names (object/object_collect.h). One node at a time does it;
 * which one, the database says.
 *
 *	duty ─► store's clock ─► rows ─► keys ─► manifests ─► listing ─► removal ─► figures
 *
 * Whatever cannot be read ends the round, and nothing is removed. Nothing is removed either
 *
 * - before each node has said that all it has is in the rows, since PostgreSQL has started: a
 *   database that was set back has forgotten rows, and its nodes say them again;
 * - while more than a part of all objects would go (cluster.objects_collect_most): a database that
 *   has lost its rows, or lies, looks like that.
 *
 * What is removed is marked in the database before, and looked at once more behind that. An upload
 * that has written an object again looks at the marks before its row. So of two that meet, one sees
 * the other.
 */
#include "base/json/json.h"

struct collect;
struct member;

/* every_us: between two rounds; 0: this node does none. */
struct collect *collect_new(struct member *m, uint64_t every_us, unsigned most_percent);
json_t *collect_status(const struct collect *c); /* for json_decref() */
/* The gateway has found all that it has in the rows, or has said it again: {n_compares}. */
void collect_tell(const struct collect *c, uint32_t seq, const json_t *call);
