// SPDX-License-Identifier: Apache-2.0
/*
 * Theory of operation: one loop goes over the services. It starts each whose dependencies are as
 * far as it asks, and looks at those that run, until nothing is left to wait for. What is in the
 * daemon already is taken as it is, so that `up` can be said again after a kill or a change.
 *
 * With --watch a thread waits for signals. It takes the project down while no create is under way,
 * so that none is left behind.
 */
#include "cli/compose/up.h"

#include "base/clock.h"
#include "base/json/json.h"
#include "cli/compose/compose_file.h"
#include "cli/compose/interpolate.h"
#include "cli/compose/logs.h"
#include "cli/compose/service.h"
#include "cli/session/build_follow.h"
#include "cli/session/spec.h"
#include "cli/template/template_dockerfile.h"
#include "cli/term/text.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ENV_FILE_MAX  ((size_t)256 * 1024)
#define LOOK_FIRST_MS 20
#define LOOK_MOST_MS  500
#define MOMENT_US     UINT64_C(300000)

struct up {
	struct project p;
	struct service *services;
	size_t n;
	json_t *network; /* of each create, or NULL */
	json_t *members; /* that were there before */
};

static struct {
	pthread_mutex_t lock; /* held while something may be made */
	struct project *p;
	struct remote *remote;
	sigset_t signals;
} watcher = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *take_down(void *arg)
{
	struct err err;
	int signo = 0;

	(void)arg;
	if (sigwait(&watcher.signals, &signo) != 0)
		return NULL;
	(void)fprintf(stderr, "\ncloche: the project is taken down\n");
	(void)pthread_mutex_lock(&watcher.lock);
	if (project_remove(watcher.p, watcher.remote, &err) < 0)
		(void)text_fail(&err);
	(void)fflush(stdout);
	_exit(EXIT_SIGNAL + signo);
}

static int start_watcher(struct project *p, struct err *err)
{
	pthread_t thread;
	int r = remote_open_again(p->c->remote, &watcher.remote, err);

	if (r < 0)
		return r;
	watcher.p = p;
	(void)sigemptyset(&watcher.signals);
	(void)sigaddset(&watcher.signals, SIGINT);
	(void)sigaddset(&watcher.signals, SIGTERM);
	(void)sigaddset(&watcher.signals, SIGHUP);
	(void)pthread_sigmask(SIG_BLOCK, &watcher.signals, NULL);
	r = -pthread_create(&thread, NULL, take_down, NULL);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot start a thread");
	(void)pthread_detach(thread);
	return 0;
}

/* The variables of its files, with its own over them. */
static int merge_env_files(const struct up *up, struct service *s, struct err *err)
{
	json_t *env = json_object(), *file;
	size_t i;
	int r = 0;

	json_array_foreach(json_object_get(s->spec, "env_files"), i, file)
	{
		auto_free char *text = NULL;
		const char *path = command_text(file, "path");

		r = project_read_file(&up->p, path, (int)command_number(file, "line"), ENV_FILE_MAX,
		                      &text, err);
		if (r == -ENOENT && !json_is_true(json_object_get(file, "required")))
			r = 0;
		else if (r == 0)
			r = interpolate_file(path, text, up->p.variables, env, err);
		if (r < 0)
			break;
	}
	if (r == 0)
		(void)json_object_update(env, json_object_get(s->spec, "environment"));
	if (r == 0)
		(void)json_object_set(s->spec, "environment", env);
	json_decref(env);
	return r;
}

/* All that is read from here is found before anything is made. */
static int check_files(const struct up *up, const struct service *s, struct err *err)
{
	const json_t *build = json_object_get(s->spec, "build"), *file;
	const int line = (int)command_number(s->spec, "line");
	size_t i;

	json_array_foreach(json_object_get(s->spec, "files"), i, file)
	{
		auto_free char *real = NULL;
		int r = project_find(&up->p, command_text(file, "source"),
		                     (int)command_number(file, "line"), &real, err);

		if (r < 0)
			return r;
	}
	if (build) {
		const char *dockerfile = command_text(build, "dockerfile");
		auto_free char *context = NULL, *real = NULL, *path = NULL;
		int r = project_find(&up->p, command_text(build, "context"), line, &context, err);

		if (r < 0)
			return r;
		path = *dockerfile == '/' ? xstrdup(dockerfile)
		                          : xasprintf("%s/%s", context,
		                                      *dockerfile ? dockerfile : "Dockerfile");
		r = project_find(&up->p, path, line, &real, err);
		return r < 0 ? r : json_object_set_new(unconst(build), "file", json_string(real));
	}
	return 0;
}

static int read_services(struct up *up, struct err *err)
{
	json_t *services = json_object_get(up->p.model, "services"), *spec;
	const char *name;
	int r = 0;

	up->services = xnew0n(struct service, json_object_size(services));
	json_object_foreach (services, name, spec) {
		struct service *s = &up->services[up->n++];

		s->name = name;
		s->spec = spec;
		r = merge_env_files(up, s, err);
		if (r == 0)
			r = check_files(up, s, err);
		if (r < 0)
			break;
	}
	return r;
}

static int make_volumes(struct up *up, struct err *err)
{
	auto_free char *path = remote_path("volumes");
	const char *name;
	json_t *volume;

	json_object_foreach (json_object_get(up->p.model, "volumes"), name, volume) {
		auto_free char *full = project_volume(up->p.name, name);
		auto_json json_t *body = json_pack("{s:s}", "name", full);
		int r = remote_call(up->p.c->remote, "POST", path, body, NULL, err);

		if (r < 0 && err->code != ERR_CONFLICT) /* it is there */
			return err_prefix(err, "volume %s", name);
	}
	return 0;
}

static int find_template(struct up *up, const char *name, char **ret_digest, struct err *err)
{
	auto_free char *path = remote_path("templates", name);
	auto_json json_t *reply = NULL;
	int r = remote_call(up->p.c->remote, "GET", path, NULL, &reply, err);

	if (r < 0 && err->code == ERR_NOT_FOUND)
		return 0;
	if (r == 0)
		*ret_digest = xstrdup(command_text(reply, "digest"));
	return r;
}

static int run_build(struct up *up, const struct service *s, const char *name, struct err *err)
{
	const json_t *spec = json_object_get(s->spec, "build"), *value;
	auto_free char *path = remote_path("builds"), *context = NULL;
	auto_json json_t *body = json_object(), *build = NULL, *args = json_object();
	const struct template_dockerfile_opts opts = {
		.path = command_text(spec, "file"),
		.name = name,
		.target = json_string_value(json_object_get(spec, "target"))};
	struct build_follow f = {.remote = up->p.c->remote, .is_quiet = up->p.c->common.json};
	const char *arg;
	int r = project_find(&up->p, command_text(spec, "context"),
	                     (int)command_number(s->spec, "line"), &context, err);

	if (r < 0)
		return r;
	project_tell(&up->p, s->name, "building", NULL);
	r = template_put_dockerfile(up->p.c, &opts, context, body, err);
	json_object_foreach (json_object_get(spec, "args"), arg, value)
		(void)json_object_set(args, arg, unconst(value));
	if (json_object_size(args) > 0)
		(void)json_object_set(body, "build_args", args);
	if (r == 0)
		r = remote_call(up->p.c->remote, "POST", path, body, &build, err);
	if (r == 0)
		r = build_follow_to_end(&f, command_text(build, "id"), err);
	if (r == 0)
		r = build_follow_error(f.build, err);
	json_decref(f.build);
	return r;
}

/* With --templates what is there is taken as it is. */
static int build_one(struct up *up, struct service *s, struct err *err)
{
	const char *owner = up->p.o->templates ? up->p.o->templates : up->p.name;
	auto_free char *name = project_template(owner, s->name), *digest = NULL;
	int r = up->p.o->templates ? find_template(up, name, &digest, err) : 0;

	if (r == 0 && !digest) {
		r = run_build(up, s, name, err);
		if (r < 0)
			return err_prefix(err, "service %s", s->name);
		r = find_template(up, name, &digest, err);
	}
	if (r < 0)
		return r;
	(void)json_object_set_new(s->spec, "template", json_string(name));
	service_set_config(s, up->network, digest ? digest : "");
	return 0;
}

static int make_templates(struct up *up, struct err *err)
{
	for (size_t i = 0; i < up->n; i++) {
		struct service *s = &up->services[i];
		int r = 0;

		service_set_config(s, up->network, "");
		if (json_object_get(s->spec, "build"))
			r = build_one(up, s, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Sandboxes of services that the file has no more. */
static int remove_strangers(struct up *up, struct err *err)
{
	const json_t *one;
	size_t i;
	int r = project_members(&up->p, up->p.c->remote, &up->members, err);

	json_array_foreach(up->members, i, one)
	{
		const char *service = project_tag(one, "compose_service");
		auto_free char *path = remote_path("sandboxes", command_text(one, "id"));

		if (r < 0 || json_object_get(json_object_get(up->p.model, "services"), service))
			continue;
		r = remote_call(up->p.c->remote, "DELETE", path, NULL, NULL, err);
		if (r < 0 && (err->code == ERR_NOT_FOUND || err->code == ERR_GONE))
			r = 0;
		project_tell(&up->p, service, "removed: the file has it no more", NULL);
	}
	return r;
}

static const struct service *service_of(const struct up *up, const char *name)
{
	for (size_t i = 0; i < up->n; i++)
		if (strcmp(up->services[i].name, name) == 0)
			return &up->services[i];
	return NULL;
}

/* 1: all that it depends on is as far as it asks; 0: not yet. */
static int may_start(const struct up *up, const struct service *s, struct err *err)
{
	const char *name;
	json_t *condition;

	json_object_foreach (json_object_get(s->spec, "depends_on"), name, condition) {
		const struct service *other = service_of(up, name);
		const char *word = json_string_value(condition);

		if (!other || other->state == SERVICE_WAITING)
			return 0;
		if (strcmp(word, "service_completed_successfully") == 0) {
			if (other->state != SERVICE_COMPLETED)
				return 0;
		} else if (strcmp(word, "service_healthy") == 0) {
			if (!other->health.test)
				return err_set(err, ERR_INVALID_FIELD, 0,
				               "%s:%d: services.%s.depends_on: '%s' has no health "
				               "check, neither here nor in its image",
				               up->p.file, (int)command_number(s->spec, "line"),
				               s->name, name);
			if (!other->health.is_healthy)
				return other->state == SERVICE_COMPLETED
				               ? err_set(err, ERR_CONFLICT, 0,
				                         "service %s: '%s' has ended before it was "
				                         "healthy",
				                         s->name, name)
				               : 0;
		}
	}
	return 1;
}

/* One turn. 1: nothing is left to wait for. */
static int step(struct up *up, bool *ret_moved, struct err *err)
{
	bool is_over = true;

	for (size_t i = 0; i < up->n; i++) {
		struct service *s = &up->services[i];
		int r = s->state == SERVICE_WAITING ? may_start(up, s, err) : 0;

		if (r > 0) {
			(void)pthread_mutex_lock(&watcher.lock);
			r = service_start(&up->p, s, up->members, up->network, err);
			(void)pthread_mutex_unlock(&watcher.lock);
			*ret_moved = true;
		}
		if (r == 0 && s->state == SERVICE_STARTED)
			r = service_look(&up->p, s, err);
		if (r < 0)
			return r;
		is_over = is_over && service_is_settled(s);
	}
	return is_over ? 1 : 0;
}

/* A command without a health check is given a moment in which it may fail at once. */
static int look_again(struct up *up, struct err *err)
{
	uint64_t until_us = 0;
	int r = 0;

	for (size_t i = 0; i < up->n; i++)
		if (up->services[i].state == SERVICE_STARTED && !up->services[i].is_kept &&
		    up->services[i].exec && !up->services[i].health.test)
			until_us = clock_steady_us() + MOMENT_US;
	do {
		const struct timespec pause = {.tv_nsec = LOOK_FIRST_MS * 1000000};

		for (size_t i = 0; r == 0 && i < up->n; i++)
			r = service_look(&up->p, &up->services[i], err);
		if (r == 0 && clock_steady_us() < until_us)
			(void)nanosleep(&pause, NULL);
	} while (r == 0 && clock_steady_us() < until_us);
	return r;
}

static int run(struct up *up, struct err *err)
{
	long pause_ms = LOOK_FIRST_MS;
	int r;

	do {
		bool has_moved = false;
		struct timespec pause;

		r = step(up, &has_moved, err);
		pause_ms = has_moved ? LOOK_FIRST_MS : MIN(pause_ms * 2, LOOK_MOST_MS);
		pause = (struct timespec){.tv_nsec = pause_ms * 1000000};
		if (r == 0)
			(void)nanosleep(&pause, NULL);
	} while (r == 0);
	return r < 0 ? r : look_again(up, err);
}

static void tell_ports(const struct up *up)
{
	for (size_t i = 0; i < up->n; i++) {
		const struct service *s = &up->services[i];
		auto_free char *path = remote_path("sandboxes", s->id);
		auto_json json_t *reply = NULL;
		const json_t *port;
		struct err err;
		size_t k;

		if (json_array_size(json_object_get(s->spec, "ports")) == 0 ||
		    remote_call(up->p.c->remote, "GET", path, NULL, &reply, &err) < 0)
			continue;
		json_array_foreach(json_object_get(reply, "ports"), k, port)
		{
			const char *url = *command_text(port, "host_url")
			                          ? command_text(port, "host_url")
			                          : command_text(port, "url");
			auto_free char *what =
				xasprintf("port %d", (int)command_number(port, "port"));

			project_tell(&up->p, s->name, what,
			             *url ? url : "open; `cloche port-forward` connects to it");
		}
	}
}

static int bring_up(struct up *up, struct err *err)
{
	int r = network_to_json(up->p.o->network, &up->p.o->allow, &up->network, err);

	if (r == 0)
		r = read_services(up, err);
	if (r == 0)
		r = remove_strangers(up, err);
	(void)pthread_mutex_lock(&watcher.lock);
	if (r == 0)
		r = make_volumes(up, err);
	(void)pthread_mutex_unlock(&watcher.lock);
	if (r == 0)
		r = make_templates(up, err);
	if (r == 0)
		r = run(up, err);
	if (r == 0)
		tell_ports(up);
	return r;
}

static int watch(struct up *up, struct err *err)
{
	int r = logs_print(&up->p, NULL, /* is_following= */ true, err);

	(void)pthread_mutex_lock(
		&watcher.lock); /* from here on we take it down, or the thread does */
	if (r == 0)
		r = project_remove(&up->p, up->p.c->remote, err);
	return r;
}

static void up_done(struct up *up)
{
	for (size_t i = 0; i < up->n; i++)
		service_done(&up->services[i]);
	free(up->services);
	json_decref(up->network);
	json_decref(up->members);
	project_done(&up->p);
}

int compose_up(struct command *c, struct err *err)
{
	struct up up = {0};
	struct err undone;
	int r = project_open(c, &up.p, err);

	if (r == 0 && up.p.o->is_watched)
		r = start_watcher(&up.p, err);
	if (r == 0)
		r = bring_up(&up, err);
	if (r == 0 && up.p.o->is_watched)
		r = watch(&up, err);
	else if (r < 0 && watcher.p && project_remove(&up.p, c->remote, &undone) < 0)
		(void)text_fail(&undone);
	up_done(&up);
	return r;
}
