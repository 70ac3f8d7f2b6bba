// SPDX-License-Identifier: Apache-2.0
#include "cli/session/fresh.h"

#include "cli/frame/command.h"
#include "cli/session/build_follow.h"
#include "cli/session/packages.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <string.h>

int fresh_private_daemon(struct interrupt *interrupt, struct private_daemon **ret_daemon,
                         struct remote **ret_remote, struct err *err)
{
	int r = private_daemon_start(interrupt, ret_daemon, err);

	return r < 0 ? r : remote_open_at(private_daemon_url(*ret_daemon), NULL, ret_remote, err);
}

static int open_daemon(struct command *c, bool is_standalone, const char *needs_daemon,
                       struct interrupt *interrupt, struct private_daemon **ret_daemon,
                       struct err *err)
{
	int r = is_standalone ? -ENOTCONN : remote_open(&c->common, &c->remote, err);

	if (r != -ENOTCONN)
		return r;
	if (needs_daemon)
		return err_set(
			err, ERR_UNAVAILABLE, 0,
			"%s needs a running daemon: one that this command starts ends with it",
			needs_daemon);
	return fresh_private_daemon(interrupt, ret_daemon, &c->remote, err);
}

int fresh_run(struct command *c, bool is_standalone, const char *needs_daemon,
              int (*run)(struct command *c, struct interrupt *interrupt, void *arg,
                         struct err *err),
              void *arg, struct err *err)
{
	auto_call(interrupt_stopp) struct interrupt *interrupt = NULL;
	auto_call(private_daemon_stopp) struct private_daemon *own = NULL;
	int r = interrupt_start(&interrupt, err);

	if (r == 0)
		r = open_daemon(c, is_standalone, needs_daemon, interrupt, &own, err);
	if (r == 0)
		r = run(c, interrupt, arg, err);
	if (r == -EINTR && interrupt_signal(interrupt))
		return EXIT_SIGNAL + interrupt_signal(interrupt);
	return r;
}

/* Templates that come with cloche and have the language. */
static const char *const *names_for(const char *language)
{
	static const char *const usual[] = {"universal", "node", NULL}, *const r[] = {"r", NULL},
				 *const java[] = {"java", NULL};

	return strcmp(language, "r") == 0 ? r : strcmp(language, "java") == 0 ? java : usual;
}

/* One that has the language may be on its way here: then its build is waited for. 1: there is none.
 */
static int await_template(struct remote *remote, const char *language, struct err *err)
{
	const char *const *names = names_for(language);
	auto_free char *path = remote_path("builds");
	auto_json json_t *reply = NULL;
	struct build_follow f = {.remote = remote, .is_quiet = true};
	const json_t *one;
	size_t i;
	int r = remote_call(remote, "GET", path, NULL, &reply, err);

	if (r < 0)
		return r;
	for (size_t n = 0; names[n]; n++)
		json_array_foreach(json_object_get(reply, "builds"), i, one)
		{
			if (!build_is_going(one) ||
			    strcmp(command_text(one, "name"), names[n]) != 0)
				continue;
			(void)fprintf(stderr,
			              "cloche: waiting for the template '%s', which is being "
			              "built\n",
			              names[n]);
			r = build_follow_to_end(&f, command_text(one, "id"), err);
			if (r == 0)
				r = build_follow_error(f.build, err);
			json_decref(f.build);
			return r;
		}
	return 1;
}

static int create(struct remote *remote, const json_t *spec, json_t **ret, struct err *err)
{
	auto_free char *path = remote_path("sandboxes");
	int r = remote_call(remote, "POST", path, spec, ret, err);
	struct err why;

	if (r == 0 || err->code != ERR_UNSUPPORTED || !json_object_get(spec, "language"))
		return r;
	switch (await_template(remote, command_text(spec, "language"), &why)) {
	case 0:
		return remote_call(remote, "POST", path, spec, ret, err);
	case 1:
		return r;
	default:
		*err = why;
		return r;
	}
}

const char *fresh_note(const struct sandbox_opts *opts)
{
	return opts->engine && strcmp(opts->engine, "vm") == 0
	               ? "starting a machine (the first of a template and size boots, later ones "
	                 "start from its copy)"
	               : "creating the sandbox";
}

int fresh_create(struct remote *remote, const struct sandbox_opts *opts, char **ret_id,
                 struct err *err)
{
	auto_json json_t *spec = NULL, *sandbox = NULL;
	int r;

	remote_note(remote, fresh_note(opts));
	if (opts->wait_ms > 0)
		remote_note_queue(remote);
	r = sandbox_opts_to_json(opts, 0, &spec, err);

	if (r == 0)
		r = packages_prepare(remote, spec, err);
	if (r == 0)
		r = create(remote, spec, &sandbox, err);
	if (r == 0)
		*ret_id = xstrdup(command_text(sandbox, "id"));
	remote_note(remote, NULL);
	return r;
}

/* Over a connection of its own: the other may be in the middle of a stream, or an upgraded one. */
void fresh_remove(const struct remote *remote, const char *id)
{
	auto_free char *path = remote_path("sandboxes", id);
	auto_call(remote_closep) struct remote *again = NULL;
	struct err err;
	int r = remote_open_again(remote, &again, &err);

	if (r == 0)
		r = remote_call(again, "DELETE", path, NULL, NULL, &err);
	if (r == 0 || err.code == ERR_NOT_FOUND) /* somebody was faster */
		return;
	(void)err_prefix(&err, "the sandbox is left behind");
	(void)text_fail(&err);
}
