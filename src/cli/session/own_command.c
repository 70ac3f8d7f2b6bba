// SPDX-License-Identifier: Apache-2.0
#include "cli/session/own_command.h"

#include "cli/frame/command.h"

/* The template that a sandbox is of. */
static int read_template(struct remote *remote, const char *sandbox, json_t **ret, struct err *err)
{
	auto_free char *about = remote_path("sandboxes", sandbox), *path = NULL;
	auto_json json_t *is = NULL;
	int r = remote_call(remote, "GET", about, NULL, &is, err);

	if (r < 0)
		return r;
	path = remote_path("templates", command_text(is, "template"));
	return remote_call(remote, "GET", path, NULL, ret, err);
}

int own_command_read(struct remote *remote, const char *sandbox, json_t **ret_argv, struct err *err)
{
	auto_json json_t *template = NULL;
	auto_json json_t *argv = json_array();
	const json_t *manifest;
	const char *name;
	int r = read_template(remote, sandbox, &template, err);

	if (r < 0)
		return r;
	name = command_text(template, "name");
	manifest = json_object_get(template, "manifest");
	(void)json_array_extend(argv, json_object_get(manifest, "entrypoint"));
	(void)json_array_extend(argv, json_object_get(manifest, "cmd"));
	if (json_array_size(argv) == 0) {
		(void)err_set(err, ERR_INVALID_FIELD, 0,
		              "there is nothing to run, and the template '%s' has no command of "
		              "its own",
		              name);
		return err_hint(err, "name one: cloche run --template %s -- COMMAND", name);
	}
	*ret_argv = json_incref(argv);
	return 0;
}

static char *text_of(const json_t *manifest, const char *field)
{
	const char *text = command_text(manifest, field);

	return *text ? xstrdup(text) : NULL;
}

void own_place_read(struct remote *remote, const char *sandbox, char **ret_directory,
                    char **ret_user)
{
	auto_json json_t *template = NULL;
	const json_t *manifest;
	struct err err;

	*ret_directory = *ret_user = NULL;
	if (read_template(remote, sandbox, &template, &err) < 0)
		return;
	manifest = json_object_get(template, "manifest");
	*ret_directory = text_of(manifest, "cwd");
	*ret_user = text_of(manifest, "user");
}
