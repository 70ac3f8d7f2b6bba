// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Templates: names for images, each with a manifest that says what is in it and how to use it. A
 * project has its own; everybody can start from shared ones, but only the operator can change them.
 * `host` is always there: this machine's own programs, without an image.
 *
 * A name is looked up among the project's own, then the shared ones, then the aliases: names that
 * clients of other services know.
 */
#include "base/digest.h"
#include "base/json/json.h"

struct fleet;
struct template;

#define TEMPLATE_NAME_MAX  63
#define TEMPLATE_HOST      "host"
#define TEMPLATE_ID_PREFIX "tpl_"

struct template_spec {          /* borrowed for the call */
	const char *project_id; /* NULL = shared */
	const char *name;
	struct digest image;    /* an existing image (image.h) */
	const json_t *manifest; /* object: env, user, cwd and other facts; or NULL */
	bool is_replacing;      /* may replace a template of that name */
	const char *id;         /* of one that another node has made; NULL: it gets a new one */
	uint64_t created_us;    /* likewise */
	bool is_set;            /* a package set (build/set.h): clients cannot give such a name */
};

/* template_names.c */
/* The usual name of an imported image: "ghcr.io/x/y:1" is "ghcr.io-x-y-1". */
void template_name_of_image(const char *reference, char *ret, size_t size);
must_check int template_check_name(const char *name, struct err *err);
/* What else a word may mean: name number n of ours for one of another service, the best first.
 * NULL: there are no more. */
const char *template_alias(const char *word, size_t n);
void template_put_aliases(struct json_writer *w, const char *name); /* of the template's */

/* template.c */
/* Checks that one of that name can be made, before work is done for it. */
must_check int template_check_free(const struct fleet *fleet, const struct template_spec *spec,
                                   struct err *err);
/* Gives the image a name; the reply is held until that is on disk. */
must_check int template_publish(struct fleet *fleet, const struct template_spec *spec,
                                struct template **ret, struct err *err);
/* By id or name. NULL if there is none; also for `host`. */
struct template *template_find(const struct fleet *fleet, const char *project_id,
                               const char *id_or_name);
/* The template of that name, if it still has that image. */
struct template *template_find_image(const struct fleet *fleet, const char *name,
                                     const struct digest *image);
/* By id alone, of any project; or NULL. */
struct template *template_find_id(const struct fleet *fleet, const char *id);
/* The template of a create that names none; NULL: host. project_id "": shared ones only. */
struct template *template_default(const struct fleet *fleet, const char *project_id);
/* Finds the template of a create: *ret NULL is `host`. name NULL: the daemon's default, or `host`
 * if that does not exist. */
must_check int template_resolve(const struct fleet *fleet, const char *project_id, const char *name,
                                struct template **ret, struct err *err);
/* Refused while a sandbox runs on its image or keeps files over it, unless another template has
 * the same image. */
must_check int template_remove(struct template *t, struct err *err);
must_check int template_check_unused(const struct template *t, struct err *err); /* for that */

/* Without a look at who uses it: its image stays as long as that is used. It was removed on another
 * node, or another one has its name there by now. */
must_check int template_drop(struct template *t, struct err *err);

/* Shared ones, and the project's own, in order of creation. */
void template_each(const struct fleet *fleet, const char *project_id,
                   void (*fn)(const struct template *t, void *arg), void *arg);
bool template_is_set(const struct template *t); /* of packages */
/* All, of all projects. */
void template_each_of_all(struct fleet *fleet, void (*fn)(struct template *t, void *arg),
                          void *arg);
/* Sets of packages, of all projects. */
void template_each_set(struct fleet *fleet, void (*fn)(struct template *t, void *arg), void *arg);
void template_use(struct template *t); /* a sandbox is going to start from it */
/* Its image has the working directory that its manifest names: a sandbox of it was looked at. */
void template_note_directory(struct template *t);
bool template_has_directory(const struct template *t, const char *cwd);
uint64_t template_used_us(const struct template *t); /* when that was last, of a set */
struct fleet *template_fleet(const struct template *t);
const char *template_id(const struct template *t);
const char *template_name(const struct template *t);
const char *template_project_id(const struct template *t); /* "" = shared */
uint64_t template_bytes(const struct template *t);
bool template_is_shared(const struct template *t);
const struct digest *template_image(const struct template *t);
uint64_t template_created_us(const struct template *t);
const json_t *template_manifest(const struct template *t); /* borrowed; an object */
/* Called when the images are known: logs each template whose image is gone or has another size. */
void templates_settle(const struct fleet *fleet);
bool template_has_image(const struct fleet *fleet, const struct digest *image);
/* Whether a template has it, or has an image that needs it. */
bool template_needs_image(const struct fleet *fleet, const struct digest *image);
void template_to_json(const struct template *t, struct json_writer *w, const char *name);
void template_host_to_json(struct json_writer *w, const char *name); /* the one that is none */
