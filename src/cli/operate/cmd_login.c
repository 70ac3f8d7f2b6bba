// SPDX-License-Identifier: Apache-2.0
/*
 * A person's login at the daemon's provider, by the device flow: the daemon stands between, so all
 * that is needed here is the daemon's address. The token is kept by saved_login.h, and sent as a
 * key is from then on.
 */
#include "cli/frame/command.h"
#include "cli/remote/saved_login.h"
#include "cli/term/text.h"

#include <openssl/crypto.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define SLOWER_MS 5000 /* as RFC 8628 asks for */

struct login_opts {
	const char *project;
};

static void print_who(const struct command *c, const json_t *who)
{
	const json_t *person = json_object_get(who, "person");
	const json_t *project = json_object_get(who, "project"), *item;
	auto_free char *name = NULL;
	size_t i;

	if (c->common.json) {
		command_print_json(who);
		return;
	}
	name = text_escaped(json_is_object(person)
	                            ? (*command_text(person, "email")
	                                       ? command_text(person, "email")
	                                       : command_text(person, "subject"))
	                            : command_text(json_object_get(who, "key"), "name"));
	printf("%s, %s of project %s\n", name, command_text(json_object_get(who, "key"), "scope"),
	       command_text(project, "name"));
	json_array_foreach(json_object_get(who, "projects"), i, item)
	{
		if (strcmp(command_text(item, "id"), command_text(project, "id")) != 0)
			printf("also %s of project %s: cloche login --project %s\n",
			       command_text(item, "scope"), command_text(item, "name"),
			       command_text(item, "name"));
	}
}

static int choose(struct command *c, struct remote *remote, const char *project, struct err *err)
{
	auto_json json_t *body = json_pack("{s:s}", "project", project), *who = NULL;
	int r = remote_call(remote, "PATCH", "/v1/login", body, &who, err);

	if (r == 0)
		print_who(c, who);
	return r;
}

static void show_code(const json_t *begun)
{
	auto_free char *code = text_escaped(command_text(begun, "user_code"));
	auto_free char *url = text_escaped(command_text(begun, "verification_url"));
	auto_free char *whole = text_escaped(command_text(begun, "complete_url"));

	(void)fprintf(stderr, "Open %s and confirm the code %s\n", *whole ? whole : url, code);
}

/* Until somebody has confirmed it. */
static int wait_for(struct remote *remote, const json_t *begun, json_t **ret, struct err *err)
{
	auto_json json_t *body = json_pack("{s:s}", "device", command_text(begun, "device"));
	uint64_t pause_ms = command_number(begun, "interval_ms");

	for (;;) {
		int r;

		(void)poll(NULL, 0, (int)pause_ms);
		r = remote_call(remote, "POST", "/v1/login/device/poll", body, ret, err);
		if (r < 0 || strcmp(command_text(*ret, "status"), "done") == 0)
			return r;
		if (json_is_true(json_object_get(*ret, "is_slow_down")))
			pause_ms += SLOWER_MS;
		json_decref(take_ptr(*ret));
	}
}

static int log_in(struct command *c, struct remote *remote, struct err *err)
{
	const struct login_opts *o = c->arg;
	auto_json json_t *begun = NULL, *done = NULL;
	auto_call(remote_closep) struct remote *own = NULL;
	const char *token;
	int r = remote_call(remote, "POST", "/v1/login/device", NULL, &begun, err);

	if (r < 0)
		return r;
	show_code(begun);
	r = wait_for(remote, begun, &done, err);
	if (r < 0)
		return r;
	token = command_text(done, "token");
	r = saved_login_set(remote_url(remote), token, err);
	if (r < 0)
		return r;
	if (o->project) {
		r = remote_open_at(remote_url(remote), token, &own, err);
		return r < 0 ? r : choose(c, own, o->project, err);
	}
	(void)json_object_del(done, "token"); /* it is nobody's to read */
	print_who(c, done);
	return 0;
}

static int login(struct command *c, struct err *err)
{
	const struct login_opts *o = c->arg;
	auto_call(remote_closep) struct remote *remote = NULL, *own = NULL;
	auto_free char *token = NULL;
	int r = remote_open_keyless(&c->common, &remote, err);

	if (r < 0)
		return r;
	/* Who is logged in already only changes the project. */
	token = o->project ? saved_login_find(remote_url(remote)) : NULL;
	if (token && remote_open_at(remote_url(remote), token, &own, err) == 0) {
		r = choose(c, own, o->project, err);
		if (r == 0 || err->code != ERR_UNAUTHENTICATED)
			return r;
	}
	return log_in(c, remote, err);
}

int cmd_login(int argc, char **argv)
{
	struct login_opts o = {0};
	const struct opt opts[] = {
		{'p', "project", OPT_TEXT, &o.project, "NAME",
	         "work in this project; if you are logged in already, change to it"},
	};
	const struct manual manual = {
		.name = "login",
		.synopsis = "[OPTIONS]",
		.about = "Logs you in at the provider of the daemon (OpenID Connect): prints an "
			 "address and a code, and waits until\n"
			 "you have confirmed the code there, with any browser. What you may do "
			 "then follows from your groups. The\n"
			 "login is kept in ~/.config/cloche/login.json, for the daemon's address; "
			 "CLOCHE_API_KEY and --key-file go first.",
		.examples = "  cloche login --url https://sandboxes.example.com\n"
			    "  cloche login --project team-a",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};

	return command_main_offline(&manual, argc, argv, login, &o);
}

static int logout(struct command *c, struct err *err)
{
	auto_call(remote_closep) struct remote *remote = NULL, *own = NULL;
	auto_free char *token = NULL;
	int r = remote_open_keyless(&c->common, &remote, err);

	if (r < 0)
		return r;
	token = saved_login_find(remote_url(remote));
	if (!token)
		return err_set(err, ERR_NOT_FOUND, 0, "you are not logged in at %s",
		               remote_url(remote));
	r = remote_open_at(remote_url(remote), token, &own, err);
	if (r == 0)
		r = remote_call(own, "DELETE", "/v1/login", NULL, NULL, err);
	if (r < 0 && err->code != ERR_UNAUTHENTICATED) /* then it is over already */
		return r;
	return saved_login_set(remote_url(remote), NULL, err);
}

int cmd_logout(int argc, char **argv)
{
	const struct manual manual = {
		.name = "logout",
		.synopsis = "[OPTIONS]",
		.about = "Ends the login that `cloche login` has made, here and at the daemon.",
		.examples = "  cloche logout",
	};

	return command_main_offline(&manual, argc, argv, logout, NULL);
}

static int whoami(struct command *c, struct err *err)
{
	auto_json json_t *who = NULL;
	int r = remote_call(c->remote, "GET", "/v1/login", NULL, &who, err);

	if (r < 0)
		return r;
	if (json_is_null(json_object_get(who, "key"))) {
		(void)err_set(err, ERR_UNAUTHENTICATED, 0, "you are nobody here");
		return err_hint(err, "log in with `cloche login`, or set CLOCHE_API_KEY");
	}
	print_who(c, who);
	return 0;
}

int cmd_whoami(int argc, char **argv)
{
	const struct manual manual = {
		.name = "whoami",
		.synopsis = "[OPTIONS]",
		.about = "Says who you are to the daemon: the person or the key, the role and the "
			 "project.",
		.examples = "  cloche whoami",
	};

	return command_main(&manual, argc, argv, whoami, NULL);
}
