// SPDX-License-Identifier: Apache-2.0
#include "build/transfer/import_base.h"

#include "build/build_private.h"
#include "sandbox/storage/image.h"
#include "sandbox/storage/template.h"

#include <string.h>

struct search {
	const struct fleet *fleet;
	const char *project_id;
	const struct digest *chains;
	size_t n;
	struct import_base *found;
};

static bool parse_field(const json_t *object, const char *name, struct digest *ret)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text && digest_parse(text, ret) == 0;
}

/* The chain of a template, if it is one of an image that its manifest still speaks of. */
static bool read_chain(const struct template *t, struct digest *ret)
{
	const json_t *imported = json_object_get(template_manifest(t), "imported");
	struct digest image;

	return parse_field(imported, "chain", ret) && parse_field(imported, "image", &image) &&
	       digest_equal(&image, template_image(t));
}

static void take(struct search *s, const struct template *t, const struct digest *chain, size_t n)
{
	const json_t *sealed = json_object_get(template_manifest(t), "sealed");

	*s->found = (struct import_base){
		.n_layers = n,
		.is_all = n == s->n,
		.image = *template_image(t),
		.chain = *chain,
		.epoch_s = (uint64_t)MAX(json_integer_value(json_object_get(sealed, "epoch_s")),
	                                 (json_int_t)0),
		.is_small = json_is_true(json_object_get(sealed, "small"))};
}

static void look(const struct template *t, void *arg)
{
	struct search *s = arg;
	struct digest chain;

	if (!read_chain(t, &chain) || !image_has(s->fleet, template_image(t), NULL))
		return;
	if (!s->chains) {
		s->found->n_layers = 1;
		return;
	}
	for (size_t n = s->n; n > s->found->n_layers; n--)
		if (digest_equal(&s->chains[n - 1], &chain))
			take(s, t, &chain, n);
}

/* Images that were pulled by a create have no name of their own, but are the project's. */
static void look_at_set(struct template *t, void *arg)
{
	const struct search *s = arg;

	if (strcmp(template_project_id(t), s->project_id) == 0)
		look(t, arg);
}

static void look_at_shared(const struct template *t, void *arg)
{
	if (template_is_shared(t))
		look(t, arg);
}

static void search_all(struct search *s, struct fleet *fleet)
{
	s->fleet = fleet;
	*s->found = (struct import_base){0};
	template_each(fleet, s->project_id ? s->project_id : "",
	              s->project_id ? look : look_at_shared, s);
	if (s->project_id)
		template_each_set(fleet, look_at_set, s);
}

void import_find_base(struct builds *bs, const char *project_id, const struct digest *chains,
                      size_t n, struct import_base *ret)
{
	struct search s = {.project_id = project_id, .chains = chains, .n = n, .found = ret};

	search_all(&s, bs->config.fleet);
}

bool import_has_bases(struct builds *bs, const char *project_id)
{
	struct import_base any = {0};
	struct search s = {.project_id = project_id, .found = &any};

	search_all(&s, bs->config.fleet);
	return any.n_layers > 0;
}
