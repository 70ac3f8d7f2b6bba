// SPDX-License-Identifier: Apache-2.0
/*
 * Template.build(): a client asks for a build, sends the files that its steps copy, starts it and
 * polls it until it is over. An image of a registry is pulled by the build, so that the client is
 * answered at once and sees how far that is. Here that is a build like any other (src/build), of a
 * recipe that is made from the steps (steps.h); `cloche template log` shows it too.
 *
 * Nothing is stored for a build that was asked for and not started: its id contains the request, as
 * RANDOM~CPUS~MEMORY~TAG…, and its template's id is the name. Once it is started the recipe has the
 * id, so that it is found after a restart too.
 */
#include "compat/e2b/control/steps.h"
#include "compat/e2b/control/templates.h"
#include "compat/e2b/frame/body.h"
#include "compat/e2b/frame/objects.h"

#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/templates/build_files.h"
#include "base/parse.h"
#include "sandbox/exec/output_spool.h"
#include "sandbox/storage/template.h"

#include <stdio.h>
#include <string.h>

#define ID_BYTES    512
#define TAGS_MAX    8
#define CPUS        2
#define CPUS_MAX    1024
#define MEMORY_MIB  1024
#define MEMORY_MAX  (INT64_C(1) << 30)
#define ENTRIES_MAX 100 /* of a log, in a reply */

struct wish {
	const char *name; /* as it was given */
	const json_t *tags;
	int64_t cpus, memory_mib;
};

/* Our name for "name" and one of its tags; checked. */
static int tagged(const char *name, const char *tag, char ret[TEMPLATE_WORD_SIZE], struct err *err)
{
	auto_free char *whole = xasprintf("%.*s:%s", (int)strcspn(name, ":"), name,
	                                  tag ? tag : TEMPLATE_TAG_DEFAULT);

	template_read_name(whole, ret);
	if (strlen(whole) >= TEMPLATE_WORD_SIZE || (tag && strpbrk(tag, "~/:")))
		return err_field(err, "tags", "'%.64s' is no tag", tag ? tag : name);
	return template_check_name(ret, err);
}

static int read_wish(const json_t *body, struct wish *w, struct err *err)
{
	int r = body_text(body, "name", &w->name, err);

	if (r == 0 && !w->name)
		r = body_text(body, "alias", &w->name, err); /* as the second generation has it */
	if (r == 0)
		r = body_array(body, "tags", &w->tags, err);
	if (r == 0)
		r = body_int(body, "cpuCount", &w->cpus, NULL, err);
	if (r == 0)
		r = body_int(body, "memoryMB", &w->memory_mib, NULL, err);
	if (r < 0)
		return r;
	if (!w->name || !*w->name || strlen(w->name) >= TEMPLATE_WORD_SIZE)
		return err_field(err, "name", "is required, and no longer than %d bytes",
		                 TEMPLATE_WORD_SIZE - 1);
	if (w->cpus < 1 || w->cpus > CPUS_MAX)
		return err_field(err, "cpuCount", "must be from 1 to %d", CPUS_MAX);
	if (w->memory_mib < 1 || w->memory_mib > MEMORY_MAX)
		return err_field(err, "memoryMB", "must be more than 0");
	if (json_array_size(w->tags) > TAGS_MAX)
		return err_field(err, "tags", "are at most %d", TAGS_MAX);
	return 0;
}

/* Adds the tags to the id, and to a list for the reply. */
static int put_tags(const struct wish *w, char id[ID_BYTES], json_t *list, struct err *err)
{
	const char *own = strchr(w->name, ':');
	char word[TEMPLATE_WORD_SIZE];
	int r = 0;

	if (own)
		(void)json_array_append_new(list, json_string(own + 1));
	for (size_t i = 0; r == 0 && i < json_array_size(w->tags); i++) {
		const json_t *tag = json_array_get(w->tags, i);

		if (!json_is_string(tag))
			r = err_field(err, "tags", "must be strings");
		else
			(void)json_array_append_new(list, json_string(json_string_value(tag)));
	}
	if (json_array_size(list) == 0)
		(void)json_array_append_new(list, json_string(TEMPLATE_TAG_DEFAULT));
	for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
		const char *tag = json_string_value(json_array_get(list, i));
		size_t len = strlen(id);

		r = tagged(w->name, tag, word, err);
		if (r == 0 &&
		    snprintf(id + len, ID_BYTES - len, "~%s", tag) >= (int)(ID_BYTES - len))
			r = err_field(err, "tags", "are too long");
	}
	return r;
}

int e2b_request_build(struct http_req *req, struct err *err)
{
	struct wish wish = {.cpus = CPUS, .memory_mib = MEMORY_MIB};
	auto_json json_t *tags = json_array();
	char random[ID_SIZE], id[ID_BYTES], name[TEMPLATE_WORD_SIZE];
	struct json_writer *w;
	struct reply reply;
	int r = read_wish(http_json(req), &wish, err);

	if (r < 0)
		return r;
	id_make_tagged(random, "b");
	(void)snprintf(id, sizeof(id), "%s~%lld~%lld", random + strlen("b_"), (long long)wish.cpus,
	               (long long)wish.memory_mib);
	r = put_tags(&wish, id, tags, err);
	if (r == 0)
		r = tagged(wish.name, NULL, name, err);
	if (r < 0)
		return r;
	w = reply_begin(&reply);
	json_put_str(w, "templateID", name);
	json_put_str(w, "buildID", id);
	json_put_bool(w, "public", false);
	for (unsigned i = 0; i < 2; i++) {
		json_open_array(w, i ? "aliases" : "names");
		json_put_str(w, NULL, name);
		json_close_array(w);
	}
	json_put_value(w, "tags", tags);
	return reply_send(&reply, req, 202, err);
}

int e2b_get_upload_link(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *hash = http_param(req, "hash");
	char token[ID_SIZE];
	auto_free char *url = NULL;
	struct json_writer *w;
	struct reply reply;

	if (!parcel_is_hash(hash))
		return err_field(err, "hash", "must be a SHA-256");
	if (!api->preview_url[0])
		return err_set(err, ERR_UNAVAILABLE, 0, "the daemon listens on no TCP address");
	parcel_expect(api->builds, caller_project(req), key_id(http_user(req)), hash, token);
	url = xasprintf("%s/templatefiles/%s", api->preview_url, token);
	w = reply_begin(&reply);
	json_put_bool(w, "present", parcel_has(api->builds, caller_project(req), hash));
	json_put_str(w, "url", url);
	return reply_send(&reply, req, 201, err);
}

static void answer_received(struct http_req *req, const char *hash)
{
	(void)hash;
	http_reply(req, 200, NULL, NULL, 0);
}

/* The token is valid as long as the key that asked for it. */
int e2b_upload_files(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *token = http_param(req, "token");
	char project_id[ID_SIZE], owner_id[ID_SIZE];
	const struct key *key = NULL;
	struct parcel_in *in;
	int r;

	if (parcel_owner(api->builds, token, project_id, owner_id))
		key = key_tokens_key(api->keyring, project_id, owner_id);
	r = parcel_begin(api->builds, key ? token : "", &in, err);
	if (r < 0)
		return r;
	api_let_in(req, key);
	receive_parcel(req, in, answer_received);
	return 0;
}

struct search {
	const char *id;
	struct build *found;
};

static void look(struct build *b, void *arg)
{
	struct search *s = arg;
	const json_t *notes = json_object_get(build_recipe(b), "e2b");
	const char *id = json_string_value(json_object_get(notes, "build"));

	if (id && strcmp(id, s->id) == 0)
		s->found = b;
}

static struct build *find_started(const struct http_req *req)
{
	const struct api *api = http_app_arg(req);
	struct search s = {.id = http_param(req, "build_id")};

	builds_each(api->builds, caller_project(req), look, &s);
	return s.found;
}

/* Puts the contents of the id into the recipe's names and notes. */
static int read_id(const char *id, const char *name, json_t *recipe, struct err *err)
{
	auto_free char *copy = xstrdup(id);
	char *rest = copy, *part = strsep(&rest, "~");
	json_t *notes = json_object_get(recipe, "e2b"), *also = json_array();
	char word[TEMPLATE_WORD_SIZE];
	uint64_t cpus = 0, memory = 0;
	int r = 0;

	(void)json_object_set_new(recipe, "also", also);
	(void)json_object_set_new(notes, "build", json_string(id));
	if (strlen(part) != ID_RANDOM_LEN || !(part = strsep(&rest, "~")) ||
	    parse_u64(part, CPUS_MAX, &cpus) < 0 || !(part = strsep(&rest, "~")) ||
	    parse_u64(part, MEMORY_MAX, &memory) < 0 || !rest)
		return err_set(err, ERR_NOT_FOUND, 0, "build '%.64s' not found", id);
	(void)json_object_set_new(notes, "cpus", json_integer((json_int_t)cpus));
	(void)json_object_set_new(notes, "memory_mib", json_integer((json_int_t)memory));
	while (r == 0 && (part = strsep(&rest, "~"))) {
		r = tagged(name, part, word, err);
		if (r == 0 && !json_object_get(recipe, "name"))
			(void)json_object_set_new(recipe, "name", json_string(word));
		else if (r == 0 && json_array_size(also) < TAGS_MAX)
			(void)json_array_append_new(also, json_string(word));
	}
	return r;
}

/* base NULL: it is not here yet, and its variables are not known. */
static int read_steps(const json_t *body, const struct template *base, bool is_image,
                      json_t *recipe, struct err *err)
{
	const json_t *manifest = base ? template_manifest(base) : NULL;
	struct steps_start start = {.env = json_object_get(manifest, "env")};

	if (!is_image) { /* whatever user an image has, E2B's builds have their own */
		start.user = json_string_value(json_object_get(manifest, "user"));
		start.cwd = json_string_value(json_object_get(manifest, "cwd"));
	}
	return steps_read(body, &start, recipe, err);
}

/* What the recipe is made from again once the image is here (build/bases.h). */
static void put_source(const json_t *body, const char *image, json_t *recipe)
{
	static const char *const kept[] = {"steps", "startCmd", "readyCmd"};
	json_t *copy = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		if (json_object_get(body, kept[i]))
			(void)json_object_set(copy, kept[i], json_object_get(body, kept[i]));
	(void)json_object_set_new(recipe, "pulls", json_pack("[s]", image));
	(void)json_object_set_new(
		recipe, "source",
		json_pack("{s:s, s:s, s:o}", "wire", "e2b", "field", "fromImage", "body", copy));
}

int e2b_plan_build(const json_t *started, const struct template *from, json_t **ret,
                   struct err *err)
{
	const json_t *body = json_object_get(json_object_get(started, "source"), "body");
	auto_json json_t *recipe = json_deep_copy(started);
	int r;

	(void)json_object_set_new(recipe, "from", json_string(template_name(from)));
	r = read_steps(body, from, /* is_image= */ true, recipe, err);
	if (r < 0)
		return r;
	(void)json_object_del(recipe, "pulls");
	(void)json_object_del(recipe, "source");
	*ret = take_ptr(recipe);
	return 0;
}

static int make_recipe(const struct http_req *req, json_t *recipe, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const json_t *body = http_json(req);
	const char *template = NULL, *image = NULL;
	char from[TEMPLATE_WORD_SIZE];
	int r = read_id(http_param(req, "build_id"), http_param(req, "id"), recipe, err);

	if (r == 0)
		r = body_text(body, "fromTemplate", &template, err);
	if (r == 0)
		r = body_text(body, "fromImage", &image, err);
	if (r == 0)
		r = template_base(req, template, image, from, err);
	if (r < 0)
		return r;
	if (r == 1)
		put_source(body, image, recipe);
	(void)json_object_set_new(recipe, "from", json_string(r == 1 ? image : from));
	return read_steps(body,
	                  r == 1 ? NULL : template_find(api->fleet, caller_project(req), from),
	                  image && *image, recipe, err);
}

/* skipCache(): of all, or from one step on. Here a build takes what is kept for all of it or for
 * nothing. */
static int read_force(const json_t *body, bool *ret, struct err *err)
{
	const json_t *steps = NULL;
	int r = body_bool(body, "force", ret, err);

	if (r == 0)
		r = body_array(body, "steps", &steps, err);
	for (size_t i = 0; r == 0 && !*ret && i < json_array_size(steps); i++)
		r = body_bool(json_array_get(steps, i), "force", ret, err);
	return r;
}

int e2b_start_build(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	auto_json json_t *recipe = json_pack("{s{}}", "e2b");
	struct build_spec spec = {.project_id = caller_project(req), .recipe = recipe};
	struct build *b;
	int r;

	if (find_started(req)) /* asked for once more: it is under way */
		r = 0;
	else
		r = make_recipe(req, recipe, err);
	if (r == 0)
		r = read_force(http_json(req), &spec.is_fresh, err);
	if (r == 0 && !find_started(req))
		r = build_start(api->builds, &spec, &b, err);
	if (r == 0)
		http_reply(req, 202, NULL, NULL, 0);
	return r;
}

static const char *status_word(const struct build *b)
{
	switch (build_state(b)) {
	case BUILD_QUEUED:
		return "waiting";
	case BUILD_RUNNING:
		return "building";
	case BUILD_READY:
		return "ready";
	case BUILD_FAILED:
	case BUILD_CANCELLED:
	case BUILD_STATE_COUNT:
		break;
	}
	return "error";
}

/* A line of the log for the client: the names of our scripts are replaced by their steps. What is
 * behind one is why it failed. */
static char *reworded(const struct build *b, const char *line, size_t len)
{
	const json_t *titles = json_object_get(json_object_get(build_recipe(b), "e2b"), "titles");
	unsigned number = steps_find(line, len);
	const char *title = number ? json_string_value(json_array_get(titles, number - 1)) : NULL;
	const char *why;

	while (len > 0 && line[len - 1] == '\n')
		len--;
	if (!title)
		return xstrndup(line, len);
	why = memmem(line, len, STEPS_DIR "/", strlen(STEPS_DIR "/"));
	why = why ? memmem(why, len - (size_t)(why - line), ": ", 2) : NULL;
	return xasprintf("%s%u/%zu] %s%.*s", *line == '+' ? "[builder " : "failed [builder ",
	                 number, json_array_size(titles), title, why ? (int)(line + len - why) : 0,
	                 why ? why : "");
}

static void put_entry(struct json_writer *w, const struct spool_event *ev, const char *text)
{
	json_open_object(w, NULL);
	e2b_put_time(w, "timestamp", ev->at_us);
	json_put_str(w, "level", "info");
	json_put_str(w, "message", text);
	json_close_object(w);
}

/* Lines after the offset. Each line is an event of the log, so an offset in lines is one in
 * events. */
static void put_log(struct json_writer *w, struct build *b, uint64_t offset)
{
	auto_json json_t *lines = json_array();
	struct spool_event ev;
	struct err err;

	json_open_array(w, "logEntries");
	for (unsigned i = 0; i < ENTRIES_MAX; i++) {
		auto_free char *text = NULL;

		if (spool_next(build_log(b), offset, &ev, &err) <= 0)
			break;
		offset = ev.seq;
		text = reworded(b, ev.data ? ev.data : "", ev.data ? ev.len : 0);
		put_entry(w, &ev, text);
		(void)json_array_append_new(lines, json_string(text));
	}
	json_close_array(w);
	json_put_value(w, "logs", lines);
}

/* Why it failed, and in which step: "base", a number, or "finalize". */
static void put_reason(struct json_writer *w, const struct build *b)
{
	const struct err *err = build_error(b);
	bool is_cancelled = build_state(b) == BUILD_CANCELLED;
	const char *text = is_cancelled ? "the build was cancelled" : err->message;
	unsigned number = steps_find(text, strlen(text));
	auto_free char *told = reworded(b, text, strlen(text));
	char step[16];

	(void)snprintf(step, sizeof(step), "%u", number);
	json_open_object(w, "reason");
	json_put_str(w, "message", told);
	json_put_str(w, "step",
	             number                            ? step
	             : strncmp(text, "checks", 6) == 0 ? "finalize"
	                                               : "base");
	json_open_array(w, "logEntries");
	json_close_array(w);
	json_close_object(w);
}

int e2b_get_build_status(struct http_req *req, struct err *err)
{
	struct build *b = find_started(req);
	uint64_t offset = 0;
	struct json_writer *w;
	struct reply reply;
	int r = http_query_u64(req, "logsOffset", 0, UINT32_MAX, &offset, err);

	if (r < 0)
		return r;
	if (!b)
		return err_set(err, ERR_NOT_FOUND, 0, "build '%.64s' not found",
		               http_param(req, "build_id"));
	w = reply_begin(&reply);
	json_put_str(w, "templateID", http_param(req, "id"));
	json_put_str(w, "buildID", http_param(req, "build_id"));
	json_put_str(w, "status", status_word(b));
	put_log(w, b, offset);
	if (strcmp(status_word(b), "error") == 0)
		put_reason(w, b);
	return reply_send(&reply, req, 200, err);
}
