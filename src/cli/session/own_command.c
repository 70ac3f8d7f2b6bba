// SPDX-License-Identifier: Apache-2.0
#include "cli/session/own_command.h"

#include "cli/frame/command.h"

int own_command_read(struct remote *remote, const char *sandbox, json_t **ret_argv, struct err *err)
{
	auto_free char *about = remote_path("sandboxes", sandbox), *path = NULL;
	auto_json json_t *is = NULL, *template = NULL;
	auto_json json_t *argv = json_array();
	const json_t *manifest;
	const char *name;
	int r = remote_call(remote, "GET", about, NULL, &is, err);

	if (r < 0)
		return r;
	name = command_text(is, "template");
	path = remote_path("templates", name);
	r = remote_call(remote, "GET", path, NULL, &template, err);
	if (r < 0)
		return r;
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
