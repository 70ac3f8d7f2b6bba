// SPDX-License-Identifier: Apache-2.0
#include "build/bases.h"

#include "build/build_private.h"
#include "build/dockerfile/dockerfile_plan.h"
#include "build/recipe/recipe.h"
#include "build/transfer/image_find.h"
#include "sandbox/storage/template.h"

#include <string.h>

struct base_pull {
	struct build *b;
	struct image_wait wait;
	char *reference;
};

struct search {
	struct builds *bs;
	const char *project_id;
	bool takes_pulled; /* images that were pulled before; else they are left open */
};

static int refuse_name(const char *reference, struct err *err)
{
	if (strcmp(reference, TEMPLATE_HOST) == 0)
		return err_field(err, "dockerfile",
		                 "'" TEMPLATE_HOST
		                 "' is this machine's own programs, and no image");
	(void)err_field(err, "dockerfile", "there is no template '%.64s'", reference);
	return err_hint(err,
	                "it comes with cloche: cloche template build %.64s; an image of that name "
	                "is '%.64s:latest'",
	                reference, reference);
}

/* Whether it can be pulled, as far as its name and the settings tell. */
static int check_reference(const struct search *s, const char *reference, struct err *err)
{
	const struct image_wish wish = {
		.project_id = s->project_id, .ref = reference, .field = "dockerfile"};

	return image_check(s->bs, &wish, err) < 0
	               ? err_prefix(err, "there is no template '%.64s'", reference)
	               : 0;
}

static uint64_t oldest_us(const struct build *b)
{
	return b->is_fresh ? b->created_us : b->created_us - MIN(b->created_us, IMAGE_FRESH_US);
}

/* A template by its own name, an image that was imported, by its reference, or one that was
 * pulled. */
static const struct template *find_here(const struct search *s, const char *reference)
{
	struct fleet *fleet = s->bs->config.fleet;
	const struct template *t = template_find(fleet, s->project_id, reference);
	char name[TEMPLATE_NAME_MAX + 1];

	template_name_of_image(reference, name, sizeof(name));
	if (!t)
		t = template_find(fleet, s->project_id, name);
	if (!t && s->takes_pulled)
		t = image_peek(s->bs, s->project_id, reference);
	return t;
}

static int find_base(const char *reference, struct docker_base *ret, void *arg, struct err *err)
{
	const struct search *s = arg;
	const struct template *t = find_here(s, reference);
	int r;

	if (!t && (strcmp(reference, TEMPLATE_HOST) == 0 || recipe_shipped(reference)))
		return refuse_name(reference, err);
	/* Else a Dockerfile would run a client's own image in a jail. */
	if (fleet_forbids(s->bs->config.fleet, ENGINE_BASE))
		return err_set(err, ERR_FORBIDDEN, 0,
		               "this daemon's settings forbid jails, in which builds run");
	if (t) {
		*ret = (struct docker_base){.image = *template_image(t),
		                            .name = template_name(t),
		                            .manifest = template_manifest(t)};
		return 0;
	}
	r = check_reference(s, reference, err);
	*ret = (struct docker_base){.name = reference, .is_open = true};
	return r;
}

static json_t *make_source(const struct bases_wish *wish)
{
	json_t *source = json_pack("{sssOss*ss*}", "text", wish->text, "build_args",
	                           wish->build_args ? wish->build_args : json_null(), "files",
	                           wish->files, "target", wish->target);

	return source;
}

static int make_plan(const struct search *s, const struct bases_wish *wish, json_t **ret,
                     struct err *err)
{
	const struct docker_request request = {.text = wish->text,
	                                       .len = strlen(wish->text),
	                                       .target = wish->target,
	                                       .build_args = wish->build_args,
	                                       .arch = plan_arch(),
	                                       .find = find_base,
	                                       .arg = unconst(s)};
	auto_json json_t *recipe = json_object();
	json_t *plan;
	int r = docker_plan(&request, recipe, err);

	if (r < 0)
		return r;
	plan = json_object_get(recipe, "dockerfile");
	if (json_array_size(json_object_get(plan, "copies")) > 0 && !wish->files)
		return err_field(err, "files", "the Dockerfile copies files, and none were sent");
	if (wish->files)
		(void)json_object_set_new(plan, "context", json_string(wish->files));
	(void)json_object_set_new(recipe, "name", json_string(wish->name));
	if (json_object_get(recipe, "pulls"))
		(void)json_object_set_new(recipe, "source", make_source(wish));
	*ret = take_ptr(recipe);
	return 0;
}

int bases_plan(struct builds *bs, const struct bases_wish *wish, json_t **ret, struct err *err)
{
	const struct search s = {.bs = bs, .project_id = wish->project_id};

	return make_plan(&s, wish, ret, err);
}

bool bases_are_due(const struct build *b)
{
	return json_object_get(b->recipe, "pulls") != NULL;
}

/* What errors call the image: a Dockerfile, or the field that another wire has for it. */
static const char *field_of(const struct build *b)
{
	const char *field =
		json_string_value(json_object_get(json_object_get(b->recipe, "source"), "field"));

	return field ? field : "dockerfile";
}

static bool is_foreign(const struct build *b)
{
	return json_object_get(json_object_get(b->recipe, "source"), "wire") != NULL;
}

static int plan_foreign(struct build *b, json_t **ret, struct err *err)
{
	const struct builds_config *c = &b->owner->config;
	const char *reference =
		json_string_value(json_array_get(json_object_get(b->recipe, "pulls"), 0));
	const struct template *t =
		reference ? image_peek(b->owner, b->project_id, reference) : NULL;

	if (!t || !c->plan_foreign)
		return err_set(err, ERR_GONE, 0, "the image that it starts from was removed");
	return c->plan_foreign(b->recipe, t, ret, err);
}

static int plan_dockerfile(const struct build *b, json_t **ret, struct err *err)
{
	const json_t *source = json_object_get(b->recipe, "source");
	const json_t *args = json_object_get(source, "build_args");
	const struct bases_wish wish = {
		.project_id = b->project_id,
		.text = json_string_value(json_object_get(source, "text")),
		.name = build_name(b),
		.files = json_string_value(json_object_get(source, "files")),
		.target = json_string_value(json_object_get(source, "target")),
		.build_args = json_is_object(args) ? args : NULL};
	const struct search s = {.bs = b->owner, .project_id = b->project_id, .takes_pulled = true};

	return wish.text ? make_plan(&s, &wish, ret, err)
	                 : err_set(err, ERR_INTERNAL, 0, "the build has lost its Dockerfile");
}

/* All are here. */
static int plan_again(struct build *b, struct err *err)
{
	json_t *recipe;
	int r = is_foreign(b) ? plan_foreign(b, &recipe, err) : plan_dockerfile(b, &recipe, err);

	if (r < 0)
		return r;
	json_decref(b->recipe);
	b->recipe = recipe;
	return 0;
}

void bases_leave(struct build *b)
{
	struct base_pull *p = b->pulling;

	if (!p)
		return;
	b->pulling = NULL;
	b->report.bytes_done = b->report.bytes_total = 0;
	b->report.doing[0] = '\0';
	image_wait_remove(&p->wait);
	free(p->reference);
	free(p);
}

static void on_progress(enum import_phase phase, uint64_t bytes, uint64_t total, void *arg)
{
	const struct base_pull *p = arg;
	struct report *report = &p->b->report;

	report->bytes_done = bytes;
	report->bytes_total = total;
	(void)snprintf(report->doing, sizeof(report->doing), "%s %.100s", import_phase_name(phase),
	               p->reference);
	build_tell(p->b);
}

static void on_pulled(const struct err *failed, void *arg)
{
	const struct base_pull *p = arg;
	struct build *b = p->b;
	struct err err = {0};

	if (failed) {
		err = *failed;
		(void)err_prefix(&err,
		                 is_foreign(b) ? "the image '%.64s'"
		                               : "FROM '%.64s', which is no template",
		                 p->reference);
	}
	bases_leave(b);
	job_on_base(b, failed ? &err : NULL);
}

static struct base_pull *base_pull_new(struct build *b, const char *reference)
{
	struct base_pull *p = xnew0(struct base_pull);

	p->b = b;
	p->reference = xstrdup(reference);
	p->wait = (struct image_wait){.fn = on_pulled, .on_progress = on_progress, .arg = p};
	list_init(&p->wait.link);
	return p;
}

static int find_one(struct build *b, const char *reference, struct template **ret, struct err *err)
{
	const struct image_wish wish = {.project_id = b->project_id,
	                                .ref = reference,
	                                .field = field_of(b),
	                                .oldest_us = oldest_us(b)};
	auto_free char *line = xasprintf("== pull: %s", reference);
	int r;

	b->pulling = base_pull_new(b, reference);
	r = image_find(b->owner, &wish, ret, &b->pulling->wait, err);
	if (r == 1)
		build_say(b, line);
	else
		bases_leave(b);
	/* Others pull as many as may be pulled at once. */
	return r < 0 && err->code == ERR_LIMIT ? 1 : r;
}

static int find_all(struct build *b, struct err *err)
{
	json_t *images = json_array(), *word;
	struct template *t;
	char hex[DIGEST_HEX];
	size_t i;

	(void)json_object_set_new(b->recipe, "pulled", images); /* from now on they are kept */
	json_array_foreach(json_object_get(b->recipe, "pulls"), i, word)
	{
		int r = find_one(b, json_string_value(word), &t, err);

		if (r != 0)
			return r;
		digest_to_hex(template_image(t), hex);
		(void)json_array_append_new(images, json_string(hex));
	}
	return 0;
}

int bases_find(struct build *b, struct err *err)
{
	int r = 0;

	if (b->pulling)
		return 1; /* another build has ended, which is nothing to this one */
	while (r == 0 && bases_are_due(b)) { /* an ONBUILD may name more of them */
		r = find_all(b, err);
		if (r == 0)
			r = plan_again(b, err);
	}
	return r;
}

static bool has_image(const json_t *rows, const char *hex)
{
	size_t i;
	json_t *row;

	json_array_foreach(rows, i, row)
	{
		const char *image = json_string_value(
			json_is_string(row) ? row : json_object_get(row, "image"));

		if (image && strcmp(image, hex) == 0)
			return true;
	}
	return false;
}

static bool starts_from(const struct build *b, const char *hex)
{
	const json_t *plan = json_object_get(b->recipe, "dockerfile");
	size_t i;
	json_t *part;

	if (has_image(json_object_get(b->recipe, "pulled"), hex) ||
	    has_image(json_object_get(plan, "stages"), hex))
		return true;
	json_array_foreach(json_object_get(plan, "parts"), i, part)
	{
		if (has_image(json_object_get(part, "carries"), hex))
			return true;
	}
	return false;
}

bool bases_need(const struct builds *bs, const struct digest *image)
{
	char hex[DIGEST_HEX];

	digest_to_hex(image, hex);
	list_for_each (&bs->all, struct build, b, link)
		if (!build_is_over(b) && starts_from(b, hex))
			return true;
	return false;
}
