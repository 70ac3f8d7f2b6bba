// SPDX-License-Identifier: Apache-2.0
/* Secrets by name: set from stdin or a prompt, so that no history and no list of processes has the
 * value. */
#include "base/fd.h"
#include "cli/frame/group.h"

#include <stdio.h>
#include <string.h>
#include <termios.h>

#define VALUE_MAX 8192 /* the daemon's bound */

struct secret_opts {
	struct opt_list hosts;
	bool is_forced;
};

/* Reads to the end of stdin, or on a terminal one line, which is not shown. */
static ssize_t read_all(char *ret, size_t size)
{
	size_t n = 0;
	ssize_t r;

	while (n < size && (r = read(STDIN_FILENO, ret + n, size - n)) != 0) {
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		n += (size_t)r;
		if (isatty(STDIN_FILENO) && ret[n - 1] == '\n')
			break;
	}
	return (ssize_t)n;
}

static ssize_t ask(const char *name, char *ret, size_t size)
{
	struct termios shown, hidden;
	bool is_terminal = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &shown) == 0;
	ssize_t n;

	if (is_terminal) {
		hidden = shown;
		hidden.c_lflag &= ~(tcflag_t)ECHO;
		(void)fprintf(stderr, "Value of %s (not shown): ", name);
		(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
	}
	n = read_all(ret, size);
	if (is_terminal) {
		(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown);
		(void)fputc('\n', stderr);
	}
	return n;
}

/* "*" is any host; without the option it is as before. */
static void put_hosts(json_t *body, const struct opt_list *hosts)
{
	json_t *list = json_array();

	for (size_t i = 0; i < hosts->n; i++)
		if (strcmp(hosts->items[i], "*") != 0)
			(void)json_array_append_new(list, json_string(hosts->items[i]));
	if (body && hosts->n > 0)
		(void)json_object_set(body, "hosts", list);
	json_decref(list);
}

static int set(struct command *c, struct err *err)
{
	const struct secret_opts *opts = c->arg;
	auto_free char *path = remote_path("secrets", c->words[0]);
	auto_json json_t *body = NULL, *reply = NULL;
	char value[VALUE_MAX + 2];
	ssize_t n = ask(c->words[0], value, sizeof(value));
	int r;

	if (n < 0)
		return err_set(err, ERR_INTERNAL, (int)-n, "cannot read the value from stdin");
	if (n > 0 && value[n - 1] == '\n')
		n--;
	if (n > VALUE_MAX)
		return err_field(err, "value", "is longer than %d bytes", VALUE_MAX);
	body = json_pack("{s:s%}", "value", value, (size_t)n);
	put_hosts(body, &opts->hosts);
	explicit_bzero(value, sizeof(value));
	if (!body)
		return err_field(err, "value", "must be text: encode it, with base64 for example");
	r = remote_call(c->remote, "PUT", path, body, &reply, err);
	if (r == 0)
		command_print_reply(c, reply, "name");
	return r;
}

static char *cell_state(const json_t *secret, const char *field)
{
	return xstrdup(json_is_true(json_object_get(secret, field)) ? "locked" : "ready");
}

static char *cell_hosts(const json_t *secret, const char *field)
{
	const json_t *hosts = json_object_get(secret, field);
	char *text = NULL;

	for (size_t i = 0; i < json_array_size(hosts); i++) {
		char *longer = xasprintf("%s%s%s", text ? text : "", text ? "," : "",
		                         json_string_value(json_array_get(hosts, i)));

		free(text);
		text = longer;
	}
	return text ? text : xstrdup("any");
}

static char *add_force(char *path, const void *arg)
{
	const struct secret_opts *opts = arg;
	char *with;

	if (!opts->is_forced)
		return path;
	with = xasprintf("%s?force=true", path);
	free(path);
	return with;
}

static const struct column columns[] = {
	{"NAME", "name"},
	{"VERSION", "version", cell_number},
	{"HOSTS", "hosts", cell_hosts},
	{"STATE", "locked", cell_state},
	{"CHANGED", "changed_us", cell_age},
};
static const struct resource secrets = {.plural = "secrets",
                                        .columns = columns,
                                        .n_columns = ARRAY_SIZE(columns),
                                        .query = add_force,
                                        .printed = "name"};

static const struct subcommand subcommands[] = {
	{"set", set, "[OPTIONS] SECRET",
         "Keeps a value under a name, or replaces it: sandboxes that run take the new one at once. "
         "The value comes from stdin (a last line end is left out), or is asked for.",
         "  cloche secret set --host api.openai.com OPENAI < key.txt\n"
         "  pass show openai | cloche secret set OPENAI\n"
         "  cloche create --network policy.json   # in it: \"authorization\": \"Bearer "
         "secret://OPENAI\"",
         .n_words = 1, .n_opts = 1},
	{"ls", resource_ls, "[OPTIONS]",
         "Lists the project's secrets, without their values. One is locked if the daemon's key "
         "file does not have its key.",
         "  cloche secret ls", .resource = &secrets},
	{"rm", resource_rm, "[OPTIONS] SECRET",
         "Removes a secret. One that a policy of a living sandbox refers to is kept unless it is "
         "forced; what its rules allow is denied then.",
         "  cloche secret rm OPENAI", .n_words = 1, .first_opt = 1, .n_opts = 1,
         .resource = &secrets},
};

static const struct group group = {
	.name = "secret",
	.about = "Secrets: values that policies and environments refer to as secret://NAME, and "
		 "that nobody can read back.",
	.subcommands = subcommands,
	.n_subcommands = ARRAY_SIZE(subcommands),
};

int cmd_secret(int argc, char **argv)
{
	struct secret_opts opts = {0};
	const struct opt rows[] = {
		{0, "host", OPT_LIST, &opts.hosts, "NAME",
	         "send it only to this host (or *.example.com), and put it into no environment; "
	         "may be repeated; '*': any host"},
		{'f', "force", OPT_FLAG, &opts.is_forced, NULL,
	         "also if policies of living sandboxes refer to it"},
	};

	int status = group_main(&group, rows, &opts, argc, argv);

	opt_list_done(&opts.hosts);
	return status;
}
