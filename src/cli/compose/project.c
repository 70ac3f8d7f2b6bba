// SPDX-License-Identifier: Apache-2.0
#include "cli/compose/project.h"

#include "base/json/json.h"
#include "cli/compose/compose_file.h"
#include "cli/compose/interpolate.h"
#include "cli/compose/yaml_value.h"
#include "cli/term/text.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define ENV_FILE_MAX ((size_t)64 * 1024)

extern char **environ;

static const char *const usual_files[] = {"compose.yaml", "compose.yml", "docker-compose.yaml",
                                          "docker-compose.yml"};

char *project_template(const char *project, const char *service)
{
	char *name = xasprintf("compose.%s.", project);

	/* A template's name has no '_', and a service's no '.'. */
	for (; *service; service++) {
		char *longer = *service == '_' ? xasprintf("%s..", name)
		                               : xasprintf("%s%c", name, *service);

		free(name);
		name = longer;
	}
	return name;
}

char *project_volume(const char *project, const char *volume)
{
	return xasprintf("compose.%s.%s", project, volume);
}

/* The caller's variables, but for those that open the daemon. */
static json_t *own_variables(void)
{
	json_t *all = json_object();

	for (char **one = environ; *one; one++) {
		const char *equals = strchr(*one, '=');
		auto_free char *name = equals ? xstrndup(*one, (size_t)(equals - *one)) : NULL;

		if (name && strncmp(name, "CLOCHE_", 7) != 0)
			(void)json_object_set_new(all, name, json_string(equals + 1));
	}
	return all;
}

static int find_file(struct project *p, struct err *err)
{
	auto_free char *real = NULL;
	char *slash;

	if (p->o->file)
		p->file = xstrdup(p->o->file);
	for (size_t i = 0; !p->file && i < ARRAY_SIZE(usual_files); i++)
		if (access(usual_files[i], F_OK) == 0)
			p->file = xstrdup(usual_files[i]);
	if (!p->file) {
		(void)err_set(err, ERR_NOT_FOUND, 0, "there is no compose.yaml here");
		return err_hint(err, "go to the project's directory, or name the file: -f FILE");
	}
	real = realpath(p->file, NULL);
	if (!real)
		return err_set(err, ERR_NOT_FOUND, errno, "cannot read '%s'", p->file);
	slash = strrchr(real, '/');
	if (p->o->directory)
		p->dir = realpath(p->o->directory, NULL);
	else
		p->dir = slash == real ? xstrdup("/") : xstrndup(real, (size_t)(slash - real));
	if (!p->dir)
		return err_set(err, ERR_NOT_FOUND, errno, "--project-directory: cannot read '%s'",
		               p->o->directory);
	p->within = realpath(p->o->within ? p->o->within : p->dir, NULL);
	if (!p->within)
		return err_set(err, ERR_NOT_FOUND, errno, "--within: cannot read '%s'",
		               p->o->within);
	return 0;
}

static bool is_within(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	return strcmp(dir, "/") == 0 ||
	       (strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0'));
}

static int wrong_place(const struct project *p, int line, struct err *err, const char *path,
                       const char *what)
{
	return err_set(err, ERR_INVALID_FIELD, 0, "%s:%d: '%.100s' %s", p->file, line, path, what);
}

int project_find(const struct project *p, const char *path, int line, char **ret, struct err *err)
{
	auto_free char *full = *path == '/' ? xstrdup(path) : xasprintf("%s/%s", p->dir, path);
	auto_free char *real = *path == '~' ? NULL : realpath(full, NULL);

	if (!real && *path != '~' && errno == ENOENT) {
		(void)wrong_place(p, line, err, path, "is not there");
		return -ENOENT;
	}
	if (!real && *path != '~')
		return err_set(err, ERR_INVALID_FIELD, errno, "%s:%d: cannot read '%.100s'",
		               p->file, line, path);
	if (!real || !is_within(p->within, real)) {
		(void)wrong_place(p, line, err, path, "is outside of the project's directory");
		return err_hint(err, "copy it in there, or say which directory files may come "
		                     "from: --within DIR");
	}
	*ret = take_ptr(real);
	return 0;
}

static int read_text(const char *path, size_t max, char **ret, struct err *err)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	auto_free char *text = NULL;
	struct stat st;
	size_t n = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, ERR_NOT_FOUND, errno, "cannot read '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID_FIELD, 0,
		               "'%s' is a directory or a device: name a file", path);
	text = xcalloc(1, max + 2);
	while (n <= max) {
		ssize_t got = read(fd, text + n, max + 1 - n);

		if (got < 0 && errno != EINTR)
			return err_set(err, ERR_INTERNAL, errno, "cannot read '%s'", path);
		if (got == 0)
			break;
		n += got > 0 ? (size_t)got : 0;
	}
	if (n > max || strlen(text) != n)
		return err_set(err, ERR_INVALID_FIELD, 0, "'%s' is %s", path,
		               n > max ? "too long" : "no text");
	*ret = take_ptr(text);
	return 0;
}

int project_read_file(const struct project *p, const char *path, int line, size_t max,
                      char **ret_text, struct err *err)
{
	auto_free char *real = NULL;
	int r = project_find(p, path, line, &real, err);

	return r < 0 ? r : read_text(real, max, ret_text, err);
}

/* .env beside the file: the caller's own variables are stronger. */
static int read_dot_env(struct project *p, struct err *err)
{
	auto_json json_t *more = json_object();
	auto_free char *text = NULL;
	int r = project_read_file(p, ".env", 0, ENV_FILE_MAX, &text, err);

	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = interpolate_file(".env", text, p->variables, more, err);
	return r == 0 ? json_object_update_missing(p->variables, more) : r;
}

static bool is_name(const char *name)
{
	size_t n = strlen(name);

	return n > 0 && n <= PROJECT_NAME_MAX &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == n && name[0] != '-' &&
	       name[n - 1] != '-';
}

/* As near as a name comes; "" where nothing is left. */
static char *name_like(const char *text)
{
	char *name = xcalloc(1, PROJECT_NAME_MAX + 1);
	size_t n = 0;

	for (; *text && n < PROJECT_NAME_MAX; text++) {
		char c = (char)tolower((unsigned char)*text);

		if (isascii(c) && isalnum((unsigned char)c))
			name[n++] = c;
		else if (n > 0 && name[n - 1] != '-')
			name[n++] = '-';
	}
	while (n > 0 && name[n - 1] == '-')
		name[--n] = '\0';
	return name;
}

static int choose_name(struct project *p, const char *of_file, struct err *err)
{
	const char *slash = p->dir ? strrchr(p->dir, '/') : NULL;

	if (p->o->project && !is_name(p->o->project))
		return err_set(
			err, ERR_INVALID_FIELD, 0,
			"--project: '%s' may have up to %d of a-z, 0-9 and '-', and '-' neither "
			"first nor last",
			p->o->project, PROJECT_NAME_MAX);
	if (p->o->project)
		p->name = xstrdup(p->o->project);
	else
		p->name = name_like(of_file && *of_file ? of_file : slash ? slash + 1 : "");
	if (!*p->name)
		return err_set(err, ERR_INVALID_FIELD, 0,
		               "the project needs a name: --project NAME");
	return 0;
}

static int read_model(struct project *p, struct err *err)
{
	auto_free char *text = NULL;
	struct compose_source source = {.name = p->file, .variables = p->variables};
	int r = read_text(p->file, YAML_TEXT_MAX, &text, err);

	if (r < 0)
		return r;
	source.text = text;
	source.len = strlen(text);
	r = compose_file_read(&source, &p->model, err);
	return r;
}

static bool is_chosen(const struct project *p, const json_t *service)
{
	const json_t *profiles = json_object_get(service, "profiles"), *one;
	size_t i;

	json_array_foreach(profiles, i,
	                   one) for (size_t k = 0; k < p->o->profiles.n;
	                             k++) if (strcmp(json_string_value(one),
	                                             p->o->profiles.items[k]) == 0) return true;
	return json_array_size(profiles) == 0;
}

/* Leaves the services that no profile chooses out. */
static int apply_profiles(struct project *p, struct err *err)
{
	json_t *services = json_object_get(p->model, "services"), *service, *condition;
	const char *name, *other;
	void *next;

	json_object_foreach_safe(services, next, name, service) if (!is_chosen(p, service))(void)
		json_object_del(services, name);
	json_object_foreach (services, name, service) {
		json_object_foreach (json_object_get(service, "depends_on"), other, condition) {
			if (json_object_get(services, other))
				continue;
			(void)wrong_place(p, (int)command_number(service, "line"), err, other,
			                  "is needed, and its profile is not chosen");
			return err_hint(err, "choose it: --profile NAME");
		}
	}
	if (json_object_size(services) == 0)
		return err_set(err, ERR_INVALID_FIELD, 0,
		               "%s: every service has a profile: choose one by --profile NAME",
		               p->file);
	return p->o->is_one_network ? 0 : compose_check_networks(p->file, services, err);
}

int project_open(struct command *c, struct project *p, struct err *err)
{
	int r;

	*p = (struct project){.c = c, .o = c->arg, .variables = own_variables()};
	r = find_file(p, err);
	if (r == 0)
		r = read_dot_env(p, err);
	if (r == 0)
		r = read_model(p, err);
	if (r == 0)
		r = choose_name(p, command_text(p->model, "name"), err);
	return r == 0 ? apply_profiles(p, err) : r;
}

int project_open_name(struct command *c, struct project *p, struct err *err)
{
	const struct compose_opts *o = c->arg;
	int r;

	*p = (struct project){.c = c, .o = o, .variables = own_variables()};
	if (o->project)
		return choose_name(p, NULL, err);
	r = find_file(p, err);
	if (r == 0)
		r = read_dot_env(p, err);
	if (r == 0)
		r = read_model(p, err);
	return r == 0 ? choose_name(p, command_text(p->model, "name"), err) : r;
}

void project_done(struct project *p)
{
	free(p->name);
	free(p->file);
	free(p->dir);
	free(p->within);
	json_decref(p->variables);
	json_decref(p->model);
}

const char *project_tag(const json_t *member, const char *name)
{
	return command_text(json_object_get(member, "tags"), name);
}

int project_members(const struct project *p, struct remote *remote, json_t **ret, struct err *err)
{
	auto_json json_t *list = json_array();
	auto_free char *path = remote_query(remote_path("sandboxes"), "limit", "100");
	size_t i = 0;
	int r;

	path = remote_query(path, "group", p->name);
	r = remote_list(remote, path, "sandboxes", list, err);
	if (r < 0)
		return r;
	while (i < json_array_size(list)) {
		if (strcmp(project_tag(json_array_get(list, i), "compose"), p->name) == 0)
			i++;
		else
			(void)json_array_remove(list, i);
	}
	*ret = take_ptr(list);
	return 0;
}

const json_t *project_member_of(const json_t *members, const char *service)
{
	const json_t *one;
	size_t i;

	json_array_foreach(members, i, one) if (strcmp(project_tag(one, "compose_service"),
	                                               service) == 0) return one;
	return NULL;
}

void project_tell(const struct project *p, const char *service, const char *state,
                  const char *detail)
{
	if (p->c->common.json) {
		auto_json json_t *event =
			json_pack("{s:s, s:s?, s:s, s:s?}", "type", "progress", "service", service,
		                  "state", state, "detail", detail);
		auto_free char *line = json_dumps(event, JSON_COMPACT);

		printf("%s\n", line ? line : "");
		(void)fflush(stdout);
		return;
	}
	if (service)
		(void)fprintf(stderr, "%s: ", service);
	(void)fprintf(stderr, "%s%s%s\n", state, detail ? ": " : "", detail ? detail : "");
}

static int remove_at(struct remote *remote, char *path, struct err *err)
{
	int r = remote_call(remote, "DELETE", path, NULL, NULL, err);

	free(path);
	return r < 0 && (err->code == ERR_NOT_FOUND || err->code == ERR_GONE) ? 0 : r;
}

/* Again and again: a create whose caller was killed may still come to its end. */
static int remove_members(const struct project *p, struct remote *remote, struct err *err)
{
	for (;;) {
		auto_json json_t *members = NULL;
		const json_t *one;
		size_t i;
		int r = project_members(p, remote, &members, err);

		json_array_foreach(members, i, one)
		{
			if (r < 0)
				break;
			r = remove_at(remote, remote_path("sandboxes", command_text(one, "id")),
			              err);
			if (r == 0)
				project_tell(p, project_tag(one, "compose_service"), "removed",
				             NULL);
		}
		if (r < 0 || json_array_size(members) == 0)
			return r;
	}
}

/* What has a name of the project's: templates, volumes, and builds that are under way. */
static int remove_named(const struct project *p, struct remote *remote, const char *what,
                        bool is_build, struct err *err)
{
	auto_free char *path = remote_path(what), *prefix = xasprintf("compose.%s.", p->name);
	auto_json json_t *reply = NULL;
	const json_t *one;
	size_t i;
	int r = remote_call(remote, "GET", path, NULL, &reply, err);

	json_array_foreach(json_object_get(reply, what), i, one)
	{
		const char *name = command_text(one, "name"), *state = command_text(one, "state");
		bool is_going = strcmp(state, "queued") == 0 || strcmp(state, "running") == 0;

		if (r < 0 || strncmp(name, prefix, strlen(prefix)) != 0 || (is_build && !is_going))
			continue;
		r = remove_at(remote,
		              remote_path(what, command_text(one, is_build ? "id" : "name")), err);
		if (r == 0 && !is_build)
			project_tell(p, NULL, "removed", name);
	}
	return r;
}

int project_remove(const struct project *p, struct remote *remote, struct err *err)
{
	int r = remove_named(p, remote, "builds", true, err);

	if (r == 0)
		r = remove_members(p, remote, err);
	if (r == 0)
		r = remove_named(p, remote, "templates", false, err);
	return r == 0 && !p->o->keeps_volumes ? remove_named(p, remote, "volumes", false, err) : r;
}
