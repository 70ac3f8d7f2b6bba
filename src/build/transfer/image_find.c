// SPDX-License-Identifier: Apache-2.0
#include "build/transfer/image_find.h"

#include "build/build_private.h"
#include "build/registry/pull.h"
#include "build/transfer/import.h"
#include "sandbox/storage/template.h"

#include <openssl/evp.h>
#include <string.h>

#define KEY_CHARS  24 /* of the hash, in the name */
#define NAME_CHARS 32 /* of the image's own */

struct image_pull {
	struct list link, waits;
	struct builds *owner;
	char project_id[ID_SIZE];
	char *name;
	struct import_ops ops;
};

static void image_pull_free(struct image_pull *p)
{
	list_for_each (&p->waits, struct image_wait, w, link)
		list_remove(&w->link);
	list_remove(&p->link);
	free(p->name);
	free(p);
}

void image_pulls_close(struct builds *bs)
{
	list_for_each (&bs->image_pulls, struct image_pull, p, link)
		image_pull_free(p);
}

void image_wait_remove(struct image_wait *w)
{
	list_remove(&w->link);
}

static char *make_name(const char *ref)
{
	const char *slash = strrchr(ref, '/');
	const char *word = slash ? slash + 1 : ref;
	struct digest hash;
	char key[DIGEST_HEX];

	if (EVP_Digest(ref, strlen(ref), hash.bytes, NULL, EVP_sha256(), NULL) != 1)
		abort(); /* no memory */
	digest_to_hex(&hash, key);
	return xasprintf("%.*s+%.*s", (int)MIN(strcspn(word, ":@"), (size_t)NAME_CHARS), word,
	                 KEY_CHARS, key);
}

static bool is_fresh(const struct template *t, const char *ref, uint64_t oldest_us)
{
	return strchr(ref, '@') || template_created_us(t) >= oldest_us;
}

static void on_progress(enum import_phase phase, uint64_t bytes, uint64_t total, void *arg)
{
	const struct image_pull *p = arg;

	list_for_each (&p->waits, struct image_wait, w, link)
		if (w->on_progress)
			w->on_progress(phase, bytes, total, w->arg);
}

static void on_end(struct template *t, const struct err *err, void *arg)
{
	struct image_pull *p = arg;
	struct list waits = LIST_INIT(waits);

	list_for_each (&p->waits, struct image_wait, w, link) {
		list_remove(&w->link);
		list_append(&waits, &w->link);
	}
	if (t)
		set_trim(p->owner, t);
	image_pull_free(p);
	for (struct image_wait *w; (w = list_first(&waits, struct image_wait, link));) {
		list_remove(&w->link);
		w->fn(err, w->arg);
	}
}

static struct image_pull *find_pull(struct builds *bs, const char *project_id, const char *name)
{
	list_for_each (&bs->image_pulls, struct image_pull, p, link)
		if (strcmp(p->project_id, project_id) == 0 && strcmp(p->name, name) == 0)
			return p;
	return NULL;
}

/* Owns name; takes pull on success. */
static int begin(struct builds *bs, const char *project_id, char *name, struct pull *pull,
                 struct image_pull **ret, struct err *err)
{
	struct image_pull *p = xnew0(struct image_pull);
	const struct import_spec spec = {.project_id = project_id,
	                                 .name = name,
	                                 .is_set = true,
	                                 .is_replacing = true,
	                                 .pull = pull};
	struct import *import;
	int r;

	p->owner = bs;
	p->name = name;
	p->ops = (struct import_ops){
		.check = bs->config.check_manifest, .on_progress = on_progress, .on_end = on_end};
	(void)snprintf(p->project_id, sizeof(p->project_id), "%s", project_id);
	list_init(&p->waits);
	list_append(&bs->image_pulls, &p->link);
	r = import_start(bs, &spec, &p->ops, p, &import, err);
	if (r < 0)
		image_pull_free(p);
	else
		*ret = p;
	return r;
}

const struct template *image_peek(struct builds *bs, const char *project_id, const char *ref)
{
	const struct pull_wish wish = {.project_id = project_id, .ref = ref, .field = "image"};
	const struct template *t;
	struct pull *pull;
	struct err err;
	char *name;

	if (pull_plan(bs, &wish, &pull, &err) < 0)
		return NULL;
	name = make_name(pull_ref(pull));
	t = template_find(bs->config.fleet, project_id, name);
	free(name);
	pull_free(pull);
	return t;
}

int image_check(struct builds *bs, const struct image_wish *image, struct err *err)
{
	const struct pull_wish wish = {
		.project_id = image->project_id, .ref = image->ref, .field = image->field};
	struct pull *pull;
	int r = pull_plan(bs, &wish, &pull, err);

	if (r == 0)
		pull_free(pull);
	return r;
}

int image_find(struct builds *bs, const struct image_wish *image, struct template **ret,
               struct image_wait *w, struct err *err)
{
	const char *const project_id = image->project_id;
	const struct pull_wish wish = {
		.project_id = project_id, .ref = image->ref, .field = image->field};
	struct image_pull *p;
	struct pull *pull;
	char *name;
	int r = pull_plan(bs, &wish, &pull, err);

	if (r < 0)
		return r;
	name = make_name(pull_ref(pull));
	*ret = template_find(bs->config.fleet, project_id, name);
	p = find_pull(bs, project_id, name);
	if ((*ret && is_fresh(*ret, pull_ref(pull), image->oldest_us)) || p) {
		free(name);
	} else {
		*ret = NULL;
		r = begin(bs, project_id, name, pull, &p, err);
		if (r == 0)
			pull = NULL; /* the import's */
	}
	pull_free(pull);
	if (r < 0)
		return r;
	if (*ret && !p) {
		template_use(*ret);
		return 0;
	}
	list_append(&p->waits, &w->link);
	return 1;
}
