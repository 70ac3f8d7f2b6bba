// SPDX-License-Identifier: Apache-2.0
#include "cli/compose/service.h"

#include "base/clock.h"
#include "base/json/json.h"
#include "cli/remote/lines.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WORDS_SHOWN 160
#define EVENT_MAX   ((size_t)4 * 1024 * 1024)

/* "$@" runs again until it may end; a pause, so that one that cannot start does not spin. */
static const char always[] = "while :; do \"$@\"; sleep 1; done";
static const char on_failure[] =
	"n=0; until \"$@\"; do c=$?; n=$((n+1)); "
	"[ \"$CLOCHE_RETRIES\" -gt 0 ] && [ $n -gt \"$CLOCHE_RETRIES\" ] && "
	"exit $c; sleep 1; done";

void service_done(struct service *s)
{
	free(s->id);
	free(s->exec);
	free(s->config);
	health_done(&s->health);
}

void service_set_config(struct service *s, const json_t *network, const char *template_digest)
{
	auto_json json_t *all = json_pack("{s:O, s:s, s:O?}", "spec", s->spec, "digest",
	                                  template_digest, "network", network);
	auto_free char *text = json_dumps(all, JSON_SORT_KEYS | JSON_COMPACT);
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a: it only tells of changes */

	for (const char *c = text ? text : ""; *c; c++)
		hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
	free(s->config);
	s->config = xasprintf("%016" PRIx64, hash);
}

bool service_exec_is_over(const json_t *exec)
{
	const char *state = command_text(exec, "state");

	return strcmp(state, "exited") == 0 || strcmp(state, "failed") == 0;
}

static void copy_fields(const json_t *from, json_t *to, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (json_object_get(from, names[i]))
			(void)json_object_set(to, names[i], json_object_get(from, names[i]));
}

static json_t *tags_of(const struct project *p, const struct service *s)
{
	return json_pack("{s:s, s:s, s:s, s:s?}", "compose", p->name, "compose_service", s->name,
	                 "compose_config", s->config, "compose_exec", s->exec ? s->exec : NULL);
}

static json_t *volumes_of(const struct project *p, const struct service *s)
{
	json_t *list = json_array(), *one;
	size_t i;

	json_array_foreach(json_object_get(s->spec, "volumes"), i, one)
	{
		auto_free char *name = project_volume(p->name, command_text(one, "volume"));

		(void)json_array_append_new(list,
		                            json_pack("{s:s, s:O, s:O}", "volume", name, "path",
		                                      json_object_get(one, "path"), "read_only",
		                                      json_object_get(one, "read_only")));
	}
	return list;
}

static json_t *create_body(const struct project *p, const struct service *s, const json_t *network)
{
	static const char *const same[] = {"limits", "ports", "image", "template", "pull"};
	const struct compose_opts *o = p->o;
	json_t *body = json_pack("{s:s, s:s, s:o, s:o}", "group", p->name, "alias", s->name, "tags",
	                         json_object(), "volumes", volumes_of(p, s));
	auto_json json_t *tags = tags_of(p, s);

	(void)json_object_del(tags, "compose_exec"); /* it is told when there is one */
	(void)json_object_set(body, "tags", tags);
	copy_fields(s->spec, body, same, ARRAY_SIZE(same));
	if (json_object_get(s->spec, "build") || json_object_get(s->spec, "template")) {
		(void)json_object_del(body, "image");
		(void)json_object_del(body, "pull");
	}
	if (json_object_size(json_object_get(s->spec, "environment")) > 0)
		(void)json_object_set(body, "env", json_object_get(s->spec, "environment"));
	if (json_array_size(json_object_get(body, "volumes")) == 0)
		(void)json_object_del(body, "volumes");
	if (network)
		(void)json_object_set(body, "network", unconst(network));
	if (o->engine)
		(void)json_object_set_new(body, "engine", json_string(o->engine));
	if (o->min_grade)
		(void)json_object_set_new(body, "min_grade", json_string(o->min_grade));
	if (o->timeout_ms > 0)
		(void)json_object_set_new(body, "timeout_ms",
		                          json_integer((json_int_t)o->timeout_ms));
	if (o->wait_ms > 0)
		(void)json_object_set_new(body, "wait_ms", json_integer((json_int_t)o->wait_ms));
	return body;
}

/* What its template says: entrypoint, cmd, health check. */
static int read_manifest(const struct project *p, const char *template, json_t **ret,
                         struct err *err)
{
	auto_free char *path = remote_path("templates", template);
	auto_json json_t *reply = NULL;
	int r = remote_call(p->c->remote, "GET", path, NULL, &reply, err);

	if (r == 0)
		*ret = json_incref(json_object_get(reply, "manifest"));
	return r;
}

static json_t *words_to_run(const struct service *s, const json_t *manifest)
{
	const json_t *entry = json_object_get(s->spec, "entrypoint");
	const json_t *command = json_object_get(s->spec, "command");
	const json_t *restart = json_object_get(s->spec, "restart");
	json_t *words = json_array();

	(void)json_array_extend(words,
	                        unconst(entry ? entry : json_object_get(manifest, "entrypoint")));
	if (command || entry)
		(void)json_array_extend(words, unconst(command));
	else
		(void)json_array_extend(words, json_object_get(manifest, "cmd"));
	if (json_array_size(words) == 0 || !restart)
		return words;
	(void)json_array_insert_new(words, 0, json_string("sh"));
	(void)json_array_insert_new(words, 0,
	                            json_string(json_is_true(json_object_get(restart, "always"))
	                                                ? always
	                                                : on_failure));
	(void)json_array_insert_new(words, 0, json_string("-c"));
	(void)json_array_insert_new(words, 0, json_string("/bin/sh"));
	return words;
}

static int start_command(const struct project *p, struct service *s, const json_t *manifest,
                         struct err *err)
{
	auto_free char *path = remote_path("sandboxes", s->id, "execs");
	auto_free char *own = remote_path("sandboxes", s->id);
	auto_json json_t *argv = words_to_run(s, manifest), *tags = NULL, *patch = NULL;
	auto_json json_t *body = json_pack("{s:O, s:b}", "argv", argv, "detached", 1),
			 *reply = NULL;
	const json_t *restart = json_object_get(s->spec, "restart");
	int r;

	if (json_array_size(argv) > 0) {
		if (json_object_get(s->spec, "user"))
			(void)json_object_set(body, "user", json_object_get(s->spec, "user"));
		if (json_object_get(s->spec, "working_dir"))
			(void)json_object_set(body, "cwd", json_object_get(s->spec, "working_dir"));
		if (restart)
			(void)json_object_set_new(
				body, "env",
				json_pack("{s:o}", "CLOCHE_RETRIES",
			                  json_sprintf("%d",
			                               (int)command_number(restart, "retries"))));
		r = remote_call(p->c->remote, "POST", path, body, &reply, err);
		if (r < 0)
			return r;
		s->exec = xstrdup(command_text(json_object_get(reply, "exec"), "id"));
	}
	/* Last: one without it was cut short, and is made anew. */
	tags = tags_of(p, s);
	if (!s->exec)
		(void)json_object_set_new(tags, "compose_exec", json_string("none"));
	patch = json_pack("{s:O}", "tags", tags);
	return remote_call(p->c->remote, "PATCH", own, patch, NULL, err);
}

static int remove_old(const struct project *p, const char *id, struct err *err)
{
	auto_free char *path = remote_path("sandboxes", id);
	int r = remote_call(p->c->remote, "DELETE", path, NULL, NULL, err);

	return r < 0 && (err->code == ERR_NOT_FOUND || err->code == ERR_GONE) ? 0 : r;
}

/* Is the one that is there as it should be, and does its command run? */
static bool is_as_wanted(const struct project *p, struct service *s, const json_t *member)
{
	const char *exec = project_tag(member, "compose_exec");
	auto_free char *path = NULL;
	auto_json json_t *reply = NULL;
	struct err err;

	if (strcmp(project_tag(member, "compose_config"), s->config) != 0 || !*exec ||
	    strcmp(command_text(member, "state"), "running") != 0)
		return false;
	if (strcmp(exec, "none") == 0)
		return true;
	path = remote_path("sandboxes", command_text(member, "id"), "execs", exec);
	if (remote_call(p->c->remote, "GET", path, NULL, &reply, &err) < 0)
		return false;
	s->exec = xstrdup(exec);
	return !service_exec_is_over(reply) ||
	       (json_is_integer(json_object_get(reply, "exit_code")) &&
	        command_number(reply, "exit_code") == 0);
}

static int create(const struct project *p, struct service *s, const json_t *network,
                  char **ret_template, struct err *err)
{
	auto_json json_t *body = create_body(p, s, network), *reply = NULL;
	auto_free char *path = remote_path("sandboxes");
	int r;

	project_tell(p, s->name, "creating",
	             *command_text(body, "image") ? command_text(body, "image") : NULL);
	r = remote_call(p->c->remote, "POST", path, body, &reply, err);
	if (r < 0)
		return r;
	s->id = xstrdup(command_text(reply, "id"));
	*ret_template = xstrdup(command_text(reply, "template"));
	return 0;
}

static int start_inside(const struct project *p, struct service *s, const json_t *members,
                        const json_t *network, struct err *err)
{
	const json_t *member = project_member_of(members, s->name);
	auto_free char *template = NULL;
	auto_json json_t *manifest = NULL;
	int r = 0;

	if (member && is_as_wanted(p, s, member)) {
		s->id = xstrdup(command_text(member, "id"));
		template = xstrdup(command_text(member, "template"));
		s->is_kept = true;
	} else {
		free(take_ptr(s->exec));
		if (member)
			r = remove_old(p, command_text(member, "id"), err);
		if (r == 0)
			r = create(p, s, network, &template, err);
	}
	if (r == 0)
		r = service_copy_in(p, s, err);
	if (r == 0)
		r = read_manifest(p, template, &manifest, err);
	if (r == 0 && !s->is_kept)
		r = start_command(p, s, manifest, err);
	if (r < 0)
		return r;
	health_init(&s->health, s->spec, manifest, clock_steady_us());
	s->state = SERVICE_STARTED;
	project_tell(p, s->name,
	             s->is_kept ? "runs already"
	             : s->exec  ? "started"
	                        : "created, with nothing to run",
	             s->id);
	return 0;
}

int service_start(const struct project *p, struct service *s, const json_t *members,
                  const json_t *network, struct err *err)
{
	int r = start_inside(p, s, members, network, err);

	return r < 0 ? err_prefix(err, "service %s", s->name) : 0;
}

static int take_words(void *arg, const char *line, size_t len, struct err *err)
{
	char **last = arg;
	auto_json json_t *event = NULL;
	const char *text, *end, *start;

	if (json_parse(line, len, &event, err) < 0)
		return 1;
	text = command_text(event, "text");
	end = text + strlen(text);
	while (end > text && end[-1] == '\n')
		end--;
	for (start = end; start > text && start[-1] != '\n';)
		start--;
	if (start == end)
		return 0;
	free(*last);
	*last = xstrndup(start, MIN((size_t)(end - start), WORDS_SHOWN));
	return 0;
}

/* The last line that an exec has printed; for free(). */
static char *last_words(struct remote *remote, const char *sandbox, const char *exec)
{
	const struct remote_request request = {.accept = "application/x-ndjson"};
	auto_free char *path = remote_path("sandboxes", sandbox, "execs", exec, "output");
	char *last = xstrdup("");
	struct err err;

	int r = remote_begin(remote, "GET", path, &request, &err);

	if (r == 0)
		r = lines_read(remote, EVENT_MAX, take_words, &last, &err);
	if (r < 0)
		last[0] = '\0'; /* the error that is being told says enough */
	return last;
}

static int failed(const struct project *p, const struct service *s, const json_t *exec,
                  struct err *err)
{
	auto_free char *said = last_words(p->c->remote, s->id, s->exec);
	auto_free char *how = NULL;

	if (json_is_object(json_object_get(exec, "error")))
		how = xasprintf("could not be started: %s",
		                command_text(json_object_get(exec, "error"), "message"));
	else if (command_number(exec, "signal") > 0)
		how = xasprintf("was ended by signal %" PRIu64, command_number(exec, "signal"));
	else
		how = xasprintf("ended with %" PRIu64, command_number(exec, "exit_code"));
	(void)err_set(err, ERR_CONFLICT, 0, "service %s %s%s%s", s->name, how, *said ? ": " : "",
	              said);
	return err_hint(err, "cloche compose logs -p %s %s; cloche compose down -p %s", p->name,
	                s->name, p->name);
}

static int look_at_command(const struct project *p, struct service *s, struct err *err)
{
	auto_free char *path = NULL;
	auto_json json_t *exec = NULL;
	int r;

	if (!s->exec || s->state != SERVICE_STARTED)
		return 0;
	path = remote_path("sandboxes", s->id, "execs", s->exec);
	r = remote_call(p->c->remote, "GET", path, NULL, &exec, err);
	if (r < 0)
		return err_prefix(err, "service %s", s->name);
	if (!service_exec_is_over(exec))
		return 0;
	if (!json_is_integer(json_object_get(exec, "exit_code")) ||
	    command_number(exec, "exit_code") != 0)
		return failed(p, s, exec, err);
	s->state = SERVICE_COMPLETED;
	project_tell(p, s->name, "completed", NULL);
	return 0;
}

int service_look(const struct project *p, struct service *s, struct err *err)
{
	const bool was_healthy = s->health.is_healthy;
	int r = look_at_command(p, s, err);

	if (r < 0 || s->state != SERVICE_STARTED)
		return r;
	r = health_probe(&s->health, p->c->remote, s->id, s->spec, err);
	if (r < 0)
		return err_prefix(err, "service %s: its health check", s->name);
	if (s->health.is_healthy && !was_healthy)
		project_tell(p, s->name, "healthy", NULL);
	if (!s->health.is_unhealthy)
		return 0;
	(void)err_set(err, ERR_CONFLICT, 0,
	              "service %s is unhealthy: its check has failed %u times%s%s", s->name,
	              s->health.failed, *s->health.said ? ": " : "", s->health.said);
	return err_hint(err, "cloche compose logs -p %s %s; cloche compose down -p %s", p->name,
	                s->name, p->name);
}

bool service_is_settled(const struct service *s)
{
	return s->state == SERVICE_COMPLETED ||
	       (s->state == SERVICE_STARTED && (!s->health.test || s->health.is_healthy));
}
