// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Templates that all nodes of the cluster have: what the database says of them. Where their images
 * lie, and how they come here, is told in sandbox/storage/shared_template.h.
 *
 * A record stands for project and name. It says which template has the name (template_id, the same
 * on all nodes), what its image is made of, each part with a broker's seal, and which templates had
 * the name before: a node that has one of those drops it.
 */
#include "base/digest.h"
#include "node/node.h"

#define NODE_IMAGE_PARTS 9        /* the images that it needs, and then itself */
#define NODE_SHARED      "shared" /* the project of templates that all projects have */

struct node_image_part {
	struct digest image, seal;
	uint64_t bytes;
};

struct node_image {
	char project_id[ID_SIZE]; /* "": shared */
	char template_id[ID_SIZE];
	const char *name;
	struct node_image_part parts[NODE_IMAGE_PARTS];
	size_t n_parts;
	uint64_t created_us;
	uint32_t node;  /* where it was made */
	bool is_stored; /* it lies in the store of objects; else on that node alone */
	bool is_gone;
	const json_t *manifest, *was; /* borrowed; an object, an array */
};

/* Whose a part is, for its seal. */
void node_image_class(const char *project_id, struct digest *ret);
/* Of this name, also one that is gone; NULL: none. */
const struct node_image *node_image_named(const struct node *n, const char *project_id,
                                          const char *name);
/* By name or id, of the project or shared; not one that is gone. */
const struct node_image *node_image_find(const struct node *n, const char *project_id,
                                         const char *word);
bool node_image_was(const struct node_image *i, const char *template_id);
/* All that are not gone, of the project and shared. */
void node_each_image(const struct node *n, const char *project_id,
                     void (*fn)(const struct node_image *i, void *arg), void *arg);
bool node_knows_images(const struct node *n); /* all that the database has */
/* fn is called when another one is known. NULL is fine for n. */
void node_has_templates(struct node *n, void (*fn)(void *arg), void *arg);

/* replaces: the template_id that has the name now, or NULL. The answer has "result". */
void node_publish_image(struct node *n, const struct node_image *i, const char *replaces,
                        node_answer_fn fn, void *arg);
void node_remove_image(struct node *n, const char *project_id, const char *name,
                       const char *template_id, node_answer_fn fn, void *arg);
/* [{digest, seal, bytes}], as records have them. */
json_t *node_image_describe_parts(const struct node_image *i); /* the caller's */
must_check int node_image_read_parts(const json_t *parts, struct node_image *ret);
/* A file to the store of objects, or from there: fd stays the caller's. */
void node_put_part(struct node *n, const struct node_image *i, size_t part, int fd,
                   node_answer_fn fn, void *arg);
void node_get_part(struct node *n, const struct node_image *i, size_t part, int fd,
                   node_answer_fn fn, void *arg);
