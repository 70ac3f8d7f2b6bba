// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Templates that all nodes of a cluster have (node/shared_images.h knows what the database says).
 *
 *	made here	broker: file and seal ─► store of objects, part by part ─► the database
 *	wanted here	broker: empty file ─► filled from the store ─► broker: checks and names it
 *	removed, or replaced by another node: it goes here, too, and its image with the last user
 *
 * Parts are the images that it needs, and then its own. What is made here can be used here at once;
 * that the others have it comes a little later, and is tried until it is so. A template keeps its
 * id on all nodes. Sets of packages (build/set.h) stay where they were made.
 *
 * NULL fleets' nodes: a node that is alone has none of this. All of it is on the loop's thread.
 */
#include "node/shared_images.h"
#include "sandbox/storage/template.h"

struct shared_wait { /* somebody who waits for a template that comes here */
	struct list link;
	void (*fn)(const struct err *err,
	           void *arg); /* err NULL: it is here. Once, and not inside */
	void *arg;
};

/* env, user and cwd of a manifest that came from elsewhere. */
typedef int (*shared_check_fn)(const json_t *manifest, struct err *err);

/* word: as of template_resolve(). 0: nothing is to be fetched. 1: w->fn is called. */
must_check int shared_template_find(struct fleet *fleet, const char *project_id, const char *word,
                                    shared_check_fn check, struct shared_wait *w, struct err *err);
/* An image alone, as a snapshot needs it: w->fn is called. It stays if somebody uses it by the end
 * of that call. i: with its parts, and whose they are. */
void shared_image_fetch(struct fleet *fleet, const struct node_image *i, struct shared_wait *w);
void shared_wait_remove(struct shared_wait *w);
/* One that is not here, by name or id; or NULL. */
const struct node_image *shared_template_elsewhere(const struct fleet *fleet,
                                                   const char *project_id, const char *word);
void shared_template_each_elsewhere(const struct fleet *fleet, const char *project_id,
                                    void (*fn)(const struct node_image *i, void *arg), void *arg);
/* Whether another node has one of this name, and this node has none. */
bool shared_template_has_name(const struct fleet *fleet, const char *project_id, const char *name);
/* From all nodes; fn once, later. It stays here if it is here: the caller removes it then. */
void shared_template_remove(struct fleet *fleet, const char *project_id, const char *name,
                            const char *template_id, node_done_fn fn, void *arg);
/* Whether that has to be asked for. */
bool shared_template_is_known(const struct fleet *fleet, const char *project_id, const char *name,
                              const char *template_id);

/* Whether the database knows of all that this node has. */
bool shared_templates_are_told(const struct fleet *fleet);

/* Of template.c. */
void shared_template_made(const struct template *t, bool is_replacing);
void shared_template_removed(const struct template *t);
void shared_template_to_json(const struct template *t, struct json_writer *w);
void shared_template_elsewhere_to_json(const struct fleet *fleet, const struct node_image *i,
                                       struct json_writer *w, const char *name);
