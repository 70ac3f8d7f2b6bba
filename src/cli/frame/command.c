// SPDX-License-Identifier: Apache-2.0
#include "cli/frame/command.h"

#include "cli/term/sheet.h"
#include "cli/term/text.h"

#include <signal.h>
#include <stdio.h>

void command_print_json(const json_t *value)
{
	auto_free char *text = json_dumps(value, JSON_INDENT(2));

	printf("%s\n", text ? text : "null");
}

void command_print_reply(const struct command *c, const json_t *reply, const char *field)
{
	auto_free char *text = field ? text_escaped(command_text(reply, field)) : NULL;

	if (c->common.json)
		command_print_json(reply);
	else if (text)
		printf("%s\n", text);
}

int command_ask(struct command *c, const char *method, const char *path, const json_t *body,
                json_t **ret, struct err *err)
{
	int r = remote_call(c->remote, method, path, body, ret, err);

	if (r < 0 || !c->common.json)
		return r;
	command_print_json(*ret);
	return 1;
}

int command_inspect(struct command *c, const char *path, struct err *err)
{
	auto_json json_t *reply = NULL;
	int r = command_ask(c, "GET", path, NULL, &reply, err);

	if (r == 0)
		sheet_print(reply);
	return MIN(r, 0);
}

const char *command_text(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

uint64_t command_number(const json_t *object, const char *name)
{
	json_int_t number = json_integer_value(json_object_get(object, name));

	return number < 0 ? 0 : (uint64_t)number;
}

/* What was printed must have arrived: a full disk is a failure, a reader that left is not news. */
static int finish_stdout(int status)
{
	struct err err;

	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	if (errno == EPIPE)
		return EXIT_SIGNAL + SIGPIPE;
	(void)err_set(&err, ERR_INTERNAL, errno, "cannot write to stdout");
	return text_fail(&err);
}

static int run(struct command *c, const struct manual *m, int argc, char **argv, command_fn fn)
{
	struct err err = {0};
	int r;

	/* A reader that leaves is an error of write(), handled where it happens. */
	(void)signal(SIGPIPE, SIG_IGN);
	r = opts_parse(m, &c->common, argc, argv, &c->words, &c->n_words, &err);

	if (r > 0)
		return finish_stdout(0);
	if (r == 0 && !c->is_offline)
		r = remote_open(&c->common, &c->remote, &err);
	if (c->remote)
		remote_note(c->remote, "waiting for the daemon");
	if (r == 0)
		r = fn(c, &err);
	remote_close(c->remote);
	if (r < 0)
		return text_fail(&err);
	return finish_stdout(r);
}

int command_run(struct command *c, const struct manual *m, int argc, char **argv, command_fn fn)
{
	return run(c, m, argc, argv, fn);
}

int command_main(const struct manual *m, int argc, char **argv, command_fn fn, void *arg)
{
	struct command c = {.arg = arg};

	return command_run(&c, m, argc, argv, fn);
}

int command_main_offline(const struct manual *m, int argc, char **argv, command_fn fn, void *arg)
{
	struct command c = {.arg = arg, .is_offline = true};

	return run(&c, m, argc, argv, fn);
}
