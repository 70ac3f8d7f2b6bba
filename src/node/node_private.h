// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the files of this folder share. */
#include "node/node.h"

struct leases;
struct owned;
struct lost;
struct name_lookup;
struct names;
struct records;
struct telling;
struct usage_telling;

struct node {
	struct node_config config;
	struct cluster_word word;
	bool has_word;
	char name[64];
	struct records *records;
	struct names *names;
	struct name_lookup *lookup;
	struct telling *telling;
	struct usage_telling *usage;
	struct leases *leases;
	struct owned *owned;
	struct lost *lost;
	const struct node_sandboxes *sandboxes; /* NULL: they are not known yet */
	void *sandboxes_arg;
	const struct node_named *named; /* NULL: nothing else has names */
	void *named_arg;
	void (*unused_project)(const char *id, void *arg); /* NULL: nobody removes them */
	void *unused_project_arg;
	uint32_t n_rewinds; /* of the word, that was told */
	json_t *objects;    /* what is in the store; or NULL */
	bool is_telling_objects;
};

struct records *records_new(struct node *n);
void records_free(struct records *r);
void records_on_word(struct records *r);

struct lost *lost_new(struct node *n);
void lost_free(struct lost *l);
void lost_on_word(struct lost *l); /* before all others */
void lost_look(struct lost *l);

struct owned *owned_new(struct node *n);
void owned_free(struct owned *o);
void owned_look(struct owned *o); /* whether there is something to do */

struct leases *leases_new(struct node *n);
void leases_free(struct leases *l);
void leases_on_word(struct leases *l);

/* Kinds of ids that have names. */
bool names_has_kind(const char *id);
struct names *names_new(struct node *n);
void names_free(struct names *s);
void names_look(struct names *s); /* whether there is something to do */

struct name_lookup *name_lookup_new(struct node *n);
void name_lookup_free(struct name_lookup *l);
void name_lookup_look(struct name_lookup *l); /* whether there is something to do */
/* An answer that says who has a name: {holder, node}. */
void name_lookup_learn(struct name_lookup *l, const char *project_id, const char *name,
                       const json_t *answer);

struct telling *telling_new(struct node *n);
void telling_free(struct telling *t);
void telling_look(struct telling *t); /* whether there is something to do */
