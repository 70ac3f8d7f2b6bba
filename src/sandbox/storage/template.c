// SPDX-License-Identifier: Apache-2.0
/*
 * A list is enough: there are tens of templates, and searching them costs less than the rest of a
 * create. Their images count against the project's disk quota; shared ones belong to the operator.
 */
#include "sandbox/storage/template.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "sandbox/storage/guest_kernel.h"
#include "sandbox/storage/image.h"
#include "sandbox/storage/shared_template.h"
#include "sandbox/storage/storage.h"
#include "store/tables/templates.h"

#include <inttypes.h>

#define PROJECT_MAX  256                /* templates of one project, and as many sets of packages */
#define USE_SAVED_US (3600 * SECOND_US) /* so exact is a set's last use after a restart */
#define MANIFEST_MAX (256 * 1024)

struct template
{
	struct list link;
	struct fleet *fleet;
	char id[ID_SIZE];
	char project_id[ID_SIZE]; /* "" = shared */
	char *name;
	struct digest image;
	uint64_t bytes, created_us, used_us;
	bool has_directory; /* its image has manifest's cwd; false: not known */
	bool is_damaged;    /* its image was gone or had another size at the start */
	json_t *manifest;
};

static void template_free(struct template *t)
{
	list_remove(&t->link);
	json_decref(t->manifest);
	free(t->name);
	free(t);
}

static void hold(const struct template *t, bool on)
{
	const struct quota_owner owner = {t->project_id, ""};
	const struct quota_held held = {.of = {[QUOTA_DISK_BYTES] = t->bytes}};
	struct quota *quota = t->fleet->config.quota;

	if (!quota || template_is_shared(t))
		return;
	if (on)
		quota_take(quota, &owner, &held);
	else
		quota_give(quota, &owner, &held);
}

static struct template *find_named(const struct fleet *fleet, const char *project_id,
                                   const char *name)
{
	list_for_each (&fleet->templates, struct template, t, link)
		if (strcmp(t->project_id, project_id) == 0 && strcmp(t->name, name) == 0)
			return t;
	return NULL;
}

static struct template *find_own_or_shared(const struct fleet *fleet, const char *project_id,
                                           const char *name)
{
	struct template *t = find_named(fleet, project_id, name);

	return t ? t : find_named(fleet, "", name);
}

struct template *template_find_image(const struct fleet *fleet, const char *name,
                                     const struct digest *image)
{
	list_for_each (&fleet->templates, struct template, t, link)
		if (strcmp(t->name, name) == 0 && digest_equal(&t->image, image))
			return t;
	return NULL;
}

struct template *template_find_id(const struct fleet *fleet, const char *id)
{
	list_for_each (&fleet->templates, struct template, t, link)
		if (strcmp(t->id, id) == 0)
			return t;
	return NULL;
}

struct template *template_default(const struct fleet *fleet, const char *project_id)
{
	struct template *t = NULL;

	(void)!template_resolve(fleet, project_id, NULL, &t, NULL);
	return t;
}

struct template *template_find(const struct fleet *fleet, const char *project_id,
                               const char *id_or_name)
{
	struct template *found = find_own_or_shared(fleet, project_id, id_or_name);
	const char *alias;

	for (size_t i = 0; !found && (alias = template_alias(id_or_name, i)); i++)
		found = find_own_or_shared(fleet, project_id, alias);
	if (found)
		return found;
	found = template_find_id(fleet, id_or_name);
	return found && (template_is_shared(found) || strcmp(found->project_id, project_id) == 0)
	               ? found
	               : NULL;
}

int template_resolve(const struct fleet *fleet, const char *project_id, const char *name,
                     struct template **ret, struct err *err)
{
	const char *wanted = name ? name : fleet->config.default_template;

	*ret = wanted && strcmp(wanted, TEMPLATE_HOST) != 0
	               ? template_find(fleet, project_id, wanted)
	               : NULL;
	if (*ret && guest_kernel_is(*ret))
		return err_field(err, "template", "'%.64s' is the kernel of vms and no root",
		                 wanted);
	if (*ret && (*ret)->is_damaged) {
		(void)err_set(err, ERR_CONFLICT, 0, "the image of template '%.64s' is damaged",
		              wanted);
		return err_hint(err, "delete the template, and build or import it again");
	}
	if (*ret || !name || strcmp(name, TEMPLATE_HOST) == 0)
		return 0;
	(void)err_field(err, "template", "there is no template '%.64s'", name);
	return err_hint(err, "`cloche template ls` lists them, `cloche template build "
	                     "NAME` makes one of those that come with cloche");
}

/* Known by its name, which no client can give, and not by its manifest, which a client may have
 * made. */
bool template_is_set(const struct template *t)
{
	return strchr(t->name, '+') != NULL;
}

int template_check_free(const struct fleet *fleet, const struct template_spec *spec,
                        struct err *err)
{
	const char *project_id = spec->project_id ? spec->project_id : "";
	int r = spec->is_set ? 0 : template_check_name(spec->name, err);
	size_t n = 0;

	if (r < 0)
		return r;
	if (find_named(fleet, project_id, spec->name)) {
		if (spec->is_replacing)
			return 0;
		(void)err_set(err, ERR_CONFLICT, 0, "name: a template named '%s' exists already",
		              spec->name);
		return err_hint(err, "replace it: \"replace\": true; or remove it first");
	}
	if (!spec->is_set && !spec->is_replacing && !spec->id &&
	    shared_template_has_name(fleet, project_id, spec->name)) {
		(void)err_set(err, ERR_CONFLICT, 0,
		              "name: a template named '%s' exists already, on another node",
		              spec->name);
		return err_hint(err, "replace it: \"replace\": true; or remove it first");
	}
	list_for_each (&fleet->templates, struct template, t, link)
		n += strcmp(t->project_id, project_id) == 0 && template_is_set(t) == spec->is_set;
	return n < PROJECT_MAX ? 0
	                       : err_set(err, ERR_LIMIT, 0,
	                                 "there are %zu templates, which is the limit", n);
}

static int save(const struct template *t, struct err *err)
{
	auto_call(buf_done) struct buf json = BUF_INIT(MANIFEST_MAX);
	struct json_writer w;
	char hex[DIGEST_HEX];
	struct template_row row = {.id = t->id,
	                           .project_id = t->project_id,
	                           .name = t->name,
	                           .image = hex,
	                           .bytes = t->bytes,
	                           .created_us = t->created_us};

	json_writer_init(&w, &json);
	json_put_value(&w, NULL, t->manifest);
	if (json_writer_end(&w) < 0)
		return err_field(err, "manifest", "is larger than %d KiB", MANIFEST_MAX / 1024);
	digest_to_hex(&t->image, hex);
	row.json = buf_str(&json);
	return store_put_template(t->fleet->config.store, &row, err);
}

static void emit(const struct template *t, enum event_type type)
{
	char digest[DIGEST_HEX];
	struct event ev;
	struct json_writer *w = event_begin(&ev, t->fleet->config.events, type,
	                                    template_is_shared(t) ? NULL : t->project_id, NULL);

	digest_to_hex(&t->image, digest);
	json_put_str(w, "template_id", t->id);
	json_put_str(w, "name", t->name);
	json_put_str(w, "image", digest);
	json_put_u64(w, "bytes", t->bytes);
	event_end(&ev);
}

/* Drops a template that was replaced or removed. */
static void drop(struct template *t)
{
	struct fleet *fleet = t->fleet;
	const struct digest image = t->image;

	hold(t, false);
	emit(t, EVENT_TEMPLATE_REMOVED);
	template_free(t);
	fleet->spares->look(fleet->pool); /* spares on it go first */
	fleet->spares->drop_copies(fleet, &image);
	image_release(fleet, &image);
}

static int admit(const struct template *t, struct err *err)
{
	const struct quota_owner owner = {t->project_id, ""};
	const struct quota_held held = {.of = {[QUOTA_DISK_BYTES] = t->bytes}};
	struct quota *quota = t->fleet->config.quota;

	if (!quota || template_is_shared(t))
		return 0;
	return quota_admit(quota, &owner, &held, /* is_create= */ false, err);
}

static bool is_of_shared(const struct digest *image, const void *arg)
{
	const struct fleet *fleet = arg;

	list_for_each (&fleet->templates, const struct template, t, link)
		if (template_is_shared(t) && image_needs(fleet, &t->image, image))
			return true;
	return false;
}

int template_publish(struct fleet *fleet, const struct template_spec *spec, struct template **ret,
                     struct err *err)
{
	const char *project_id = spec->project_id ? spec->project_id : "";
	struct template *last = find_named(fleet, project_id, spec->name), *t;
	int r = template_check_free(fleet, spec, err);

	if (r < 0)
		return r;
	if (!image_has(fleet, &spec->image, NULL))
		return err_set(err, ERR_NOT_FOUND, 0, "the image is not there any more");
	t = xnew0(struct template);
	/* What everybody has is free, as it is for sandboxes. What a project made itself counts for
	 * each template that needs it: the first one may be removed, and its image is then kept. */
	*t = (struct template){
		.fleet = fleet,
		.image = spec->image,
		.bytes = image_count_charged(fleet, &spec->image, is_of_shared, fleet)};
	list_init(&t->link);
	if (spec->id)
		(void)snprintf(t->id, sizeof(t->id), "%s", spec->id);
	else
		id_make(t->id, "tpl");
	(void)snprintf(t->project_id, sizeof(t->project_id), "%s", project_id);
	t->name = xstrdup(spec->name);
	t->used_us = clock_wall_us();
	t->created_us = spec->created_us ? spec->created_us : t->used_us;
	t->manifest = spec->manifest ? json_deep_copy(spec->manifest) : json_object();
	r = admit(t, err);
	if (r == 0) {
		r = save(t, err);
		if (r < 0)
			hold(t, false);
	}
	if (r < 0) {
		template_free(t);
		return r;
	}
	list_append(&fleet->templates, &t->link);
	emit(t, EVENT_TEMPLATE_CREATED);
	if (!spec->id)
		shared_template_made(t, spec->is_replacing);
	if (last)
		drop(last);
	fleet->spares->look(fleet->pool);
	if (guest_kernel_is(t))
		guest_kernel_tell(fleet);
	log_info("template.created", "id=%s name=%s", t->id, t->name);
	*ret = t;
	return 0;
}

void templates_settle(const struct fleet *fleet)
{
	list_for_each (&fleet->templates, struct template, t, link) {
		char hex[DIGEST_HEX];
		uint64_t bytes = 0;

		if (image_has(fleet, &t->image, &bytes) && bytes <= t->bytes &&
		    bytes + image_count_shared(fleet, &t->image) >= t->bytes)
			continue;
		t->is_damaged = true;
		digest_to_hex(&t->image, hex);
		log_error("template.damaged",
		          "id=%s name=%s file='templates/%s/image.erofs' bytes=%" PRIu64
		          " expected=%" PRIu64 " hint='delete it, and build or import it again'",
		          t->id, t->name, hex, bytes, t->bytes);
	}
}

bool template_has_image(const struct fleet *fleet, const struct digest *image)
{
	list_for_each (&fleet->templates, struct template, t, link)
		if (digest_equal(&t->image, image))
			return true;
	return false;
}

bool template_needs_image(const struct fleet *fleet, const struct digest *image)
{
	list_for_each (&fleet->templates, const struct template, t, link)
		if (image_needs(fleet, &t->image, image))
			return true;
	return false;
}

static size_t count_with(const struct fleet *fleet, const struct digest *image)
{
	size_t n = 0;

	list_for_each (&fleet->templates, struct template, t, link)
		n += digest_equal(&t->image, image);
	return n;
}

int template_drop(struct template *t, struct err *err)
{
	int r = store_delete_template(t->fleet->config.store, t->id, err);

	if (r < 0)
		return r;
	log_info("template.dropped", "id=%s name=%s", t->id, t->name);
	drop(t);
	return 0;
}

int template_check_unused(const struct template *t, struct err *err)
{
	size_t users = image_count_users(t->fleet, &t->image);

	if (users > 0 && count_with(t->fleet, &t->image) == 1) {
		(void)err_set(err, ERR_CONFLICT, 0, "%zu %s the template '%s'", users,
		              users == 1 ? "sandbox uses" : "sandboxes use", t->name);
		return err_hint(err, "delete them first: a stopped one counts too");
	}
	users = image_count_stored(t->fleet, &t->image);
	if (users > 0 && count_with(t->fleet, &t->image) == 1) {
		(void)err_set(err, ERR_CONFLICT, 0, "%zu %s over the template '%s'", users,
		              users == 1 ? "snapshot is" : "snapshots are", t->name);
		return err_hint(err, "remove them first");
	}
	return 0;
}

int template_remove(struct template *t, struct err *err)
{
	int r = template_check_unused(t, err);

	if (r == 0)
		r = store_delete_template(t->fleet->config.store, t->id, err);
	if (r < 0)
		return r;
	log_info("template.removed", "id=%s name=%s", t->id, t->name);
	shared_template_removed(t);
	drop(t);
	return 0;
}

void template_each(const struct fleet *fleet, const char *project_id,
                   void (*fn)(const struct template *t, void *arg), void *arg)
{
	list_for_each (&fleet->templates, const struct template, t, link)
		if (template_is_shared(t) || strcmp(t->project_id, project_id) == 0)
			fn(t, arg);
}

void template_each_of_all(struct fleet *fleet, void (*fn)(struct template *t, void *arg), void *arg)
{
	list_for_each (&fleet->templates, struct template, t, link)
		fn(t, arg);
}

void template_each_set(struct fleet *fleet, void (*fn)(struct template *t, void *arg), void *arg)
{
	list_for_each (&fleet->templates, struct template, t, link)
		if (template_is_set(t))
			fn(t, arg);
}

void template_use(struct template *t)
{
	json_t *set = json_object_get(t->manifest, "set");
	uint64_t now = clock_wall_us();
	uint64_t saved = (uint64_t)json_integer_value(json_object_get(set, "used_us"));
	struct err err;

	if (template_is_set(t) && set && now > MAX(saved, t->created_us) + USE_SAVED_US) {
		(void)json_object_set_new(set, "used_us", json_integer((json_int_t)now));
		if (save(t, &err) < 0)
			log_warn("template.use_not_saved", "id=%s why='%s'", t->id, err.message);
	}
	t->used_us = now;
}

uint64_t template_used_us(const struct template *t)
{
	return t->used_us;
}

void template_note_directory(struct template *t)
{
	t->has_directory = true;
}

bool template_has_directory(const struct template *t, const char *cwd)
{
	const char *own = json_string_value(json_object_get(t->manifest, "cwd"));

	return t->has_directory && own && strcmp(own, cwd) == 0;
}

uint64_t template_bytes(const struct template *t)
{
	return t->bytes;
}

const char *template_project_id(const struct template *t)
{
	return t->project_id;
}

struct fleet *template_fleet(const struct template *t)
{
	return t->fleet;
}

const char *template_id(const struct template *t)
{
	return t->id;
}

const char *template_name(const struct template *t)
{
	return t->name;
}

bool template_is_shared(const struct template *t)
{
	return t->project_id[0] == '\0';
}

const struct digest *template_image(const struct template *t)
{
	return &t->image;
}

uint64_t template_created_us(const struct template *t)
{
	return t->created_us;
}

const json_t *template_manifest(const struct template *t)
{
	return t->manifest;
}

void template_to_json(const struct template *t, struct json_writer *w, const char *name)
{
	char hex[DIGEST_HEX], digest[DIGEST_HEX + 8];
	uint64_t bytes = t->bytes;

	(void)image_has(t->fleet, &t->image, &bytes);
	digest_to_hex(&t->image, hex);
	(void)snprintf(digest, sizeof(digest), "sha256:%s", hex);
	json_open_object(w, name);
	json_put_str(w, "id", t->id);
	json_put_str(w, "name", t->name);
	json_put_bool(w, "shared", template_is_shared(t));
	json_put_str(w, "digest", digest);
	json_put_u64(w, "bytes", bytes);
	json_put_u64(w, "shared_bytes", image_count_shared(t->fleet, &t->image));
	template_put_aliases(w, t->name);
	json_put_u64(w, "sandboxes", image_count_users(t->fleet, &t->image));
	json_put_u64(w, "warm_copies", t->fleet->spares->count_copies(t->fleet, &t->image));
	json_put_u64(w, "created_us", t->created_us);
	shared_template_to_json(t, w);
	json_put_value(w, "manifest", t->manifest);
	json_close_object(w);
}

void template_host_to_json(struct json_writer *w, const char *name)
{
	json_open_object(w, name);
	json_put_null(w, "id");
	json_put_str(w, "name", TEMPLATE_HOST);
	json_put_bool(w, "shared", true);
	json_put_null(w, "digest");
	json_put_u64(w, "bytes", 0);
	json_put_u64(w, "shared_bytes", 0);
	template_put_aliases(w, TEMPLATE_HOST);
	json_put_null(w, "sandboxes");
	json_put_u64(w, "warm_copies", 0);
	json_put_null(w, "created_us");
	json_put_null(w, "cluster");
	json_open_object(w, "manifest");
	json_close_object(w);
	json_close_object(w);
}

static int load(const struct template_row *row, void *arg)
{
	struct fleet *fleet = arg;
	struct template *t = xnew0(struct template);
	struct err err;

	t->fleet = fleet;
	list_init(&t->link);
	(void)snprintf(t->id, sizeof(t->id), "%s", row->id);
	(void)snprintf(t->project_id, sizeof(t->project_id), "%s", row->project_id);
	t->name = xstrdup(row->name);
	t->bytes = row->bytes;
	t->created_us = row->created_us;
	if (digest_parse(row->image, &t->image) < 0 ||
	    json_parse(row->json, strlen(row->json), &t->manifest, &err) < 0) {
		log_error("template.unreadable", "id='%s'", row->id);
		template_free(t);
		return 0;
	}
	t->used_us = MAX(t->created_us, (uint64_t)json_integer_value(json_object_get(
						json_object_get(t->manifest, "set"), "used_us")));
	list_append(&fleet->templates, &t->link);
	hold(t, true);
	return 0;
}

int templates_open(struct fleet *fleet, struct err *err)
{
	return store_each_template(fleet->config.store, load, fleet, err);
}

void templates_close(struct fleet *fleet)
{
	list_for_each (&fleet->templates, struct template, t, link)
		template_free(t);
}
