// SPDX-License-Identifier: Apache-2.0
/* compose: the services of a Compose file as sandboxes that reach each other by name. */
#include "cli/compose/project.h"
#include "cli/compose/up.h"

#include <assert.h>
#include <string.h>

/* Which rows of the table below each takes. */
enum {
	COMMON = 4,
	FILE_ROWS = COMMON + 2,
	UP_ROWS = FILE_ROWS + 8,
	EXEC_ROWS = COMMON + 7,
	AT_UP = 0,
	AT_EXEC = AT_UP + UP_ROWS,
	AT_LOGS = AT_EXEC + EXEC_ROWS,
	AT_DOWN = AT_LOGS + COMMON + 1,
	N_ROWS = AT_DOWN + COMMON + 1,
};

static const struct subcommand subcommands[] = {
	{"up", compose_up, "[OPTIONS]",
         "Brings the services up, each in a sandbox of its own.\n"
         "They reach each other by name, and nobody else reaches them; outside they reach what "
         "--network and --allow\nsay, by default nothing. Returns when all have started and those "
         "with a health check are healthy. A second\n'up' applies what has changed in the file. A "
         "field that is not supported is an error that names its line.",
         "  cloche compose up\n"
         "  cloche compose up -f tests/compose.yaml -p run-7 --timeout 1h\n"
         "  cloche compose up --watch --allow pip",
         .first_opt = AT_UP, .n_opts = UP_ROWS},
	{"ps", compose_ps, "[OPTIONS]", "Lists the services that run.",
         "  cloche compose ps -p run-7", .first_opt = AT_UP, .n_opts = COMMON},
	{"logs", compose_logs, "[OPTIONS] [SERVICE]",
         "Prints what the services' commands have written.", "  cloche compose logs --follow web",
         .n_more = 1, .first_opt = AT_LOGS, .n_opts = COMMON + 1},
	{"exec", compose_exec, "[OPTIONS] SERVICE COMMAND [ARGS…]",
         "Runs a command in a service's sandbox. It is as 'cloche exec' otherwise.",
         "  cloche compose exec db psql -U postgres\n"
         "  cloche compose exec -it web sh",
         .n_words = 2, .n_more = WORDS_MAX - 2, .first_opt = AT_EXEC, .n_opts = EXEC_ROWS,
         .words_end_options = true},
	{"down", compose_down, "[OPTIONS]",
         "Removes all of a project: its sandboxes, what was built for it, and its volumes.\n"
         "With -p it needs no file. It also works after an `up` that failed.",
         "  cloche compose down\n"
         "  cloche compose down -p run-7 --keep-volumes",
         .first_opt = AT_DOWN, .n_opts = COMMON + 1},
	{"config", compose_config, "[OPTIONS]",
         "Prints what the file means: with variables filled in and short forms written out.",
         "  cloche compose config -f compose.yaml", .first_opt = AT_UP, .n_opts = FILE_ROWS},
};

static const struct group group = {
	.name = "compose",
	.about = "The services of a Compose file, as sandboxes that reach each other by name.",
	.subcommands = subcommands,
	.n_subcommands = ARRAY_SIZE(subcommands),
};

/* `compose -f FILE up` is `compose up -f FILE`. */
static void word_first(int argc, char **argv)
{
	int at = 1;
	char *word;

	while (at + 1 < argc && (strcmp(argv[at], "-f") == 0 || strcmp(argv[at], "--file") == 0 ||
	                         strcmp(argv[at], "-p") == 0 || strcmp(argv[at], "--project") == 0))
		at += 2;
	if (at == 1 || at >= argc)
		return;
	word = argv[at];
	memmove(&argv[2], &argv[1], (size_t)(at - 1) * sizeof(*argv));
	argv[1] = word;
}

/* clang-format off */
#define COMMON_ROWS(o) \
	{'f', "file",    OPT_TEXT, &(o).file,    "FILE", "the Compose file (default: compose.yaml or docker-compose.yaml here)"}, \
	{'p', "project", OPT_TEXT, &(o).project, "NAME", "the project's name (default: the file's own, else its directory's)"}, \
	{0,   "project-directory", OPT_TEXT, &(o).directory, "DIR", "relative paths of the file begin in DIR (default: the directory of the file)"}, \
	{0,   "within",  OPT_TEXT, &(o).within,  "DIR",  "copy files from below DIR only (default: the directory in which paths begin)"}
/* clang-format on */

int cmd_compose(int argc, char **argv)
{
	struct compose_opts o = {0};
	int status;
	/* clang-format off */
	const struct opt rows[] = {
		COMMON_ROWS(o),
		{0,   "profile",     OPT_LIST, &o.profiles,        "NAME",  "also the services of this profile; may be repeated"},
		{0,   "one-network", OPT_FLAG, &o.is_one_network,  NULL,    "let all services reach each other, whatever networks the file has"},
		{'w', "watch",       OPT_FLAG, &o.is_watched,      NULL,    "stay: print what the services write, and take all down at Ctrl-C or when the last has ended"},
		{0,   "network",     OPT_TEXT, &o.network,         "POLICY", "what each may reach outside: deny-all (the default), allow-all, or a JSON file"},
		{0,   "allow",       OPT_LIST, &o.allow,           "NAME",  "let each reach this name or range; pip, npm or apt: the hosts of their packages; may be repeated"},
		{0,   "engine",      OPT_TEXT, &o.engine,          "NAME",  "auto, jail or vm"},
		{0,   "min-grade",   OPT_TEXT, &o.min_grade,       "GRADE", "refuse weaker isolation: process, emulated or hardware"},
		{0,   "timeout",     OPT_MS,   &o.timeout_ms,      "TIME",  "end each sandbox this long after its start (default: the daemon's)"},
		{0,   "wait",        OPT_MS,   &o.wait_ms,         "TIME",  "wait this long for room while the project's quota or the host is full"},
		{0,   "templates",   OPT_TEXT, &o.templates,       "NAME",  "share the templates that are built: projects with the same NAME here build them once"},
		COMMON_ROWS(o),
		{'i', "stdin",   OPT_FLAG, &o.wants_stdin,     NULL,   "pass stdin on"},
		{'t', "tty",     OPT_FLAG, &o.wants_pty,       NULL,   "give it a terminal, connected to this one"},
		{'d', "detach",  OPT_FLAG, &o.is_detached,     NULL,   "print the exec's id and leave it running"},
		{'u', "user",    OPT_TEXT, &o.user,            "NAME", "run as this user of the sandbox"},
		{'w', "cwd",     OPT_TEXT, &o.cwd,             "DIR",  "in this directory"},
		{'e', "env",     OPT_LIST, &o.env,             "K=V",  "set this variable; K alone takes the value that you have; may be repeated"},
		{0,   "timeout", OPT_MS,   &o.exec_timeout_ms, "TIME", "after this long, end it with everything that it started"},
		COMMON_ROWS(o),
		{'F', "follow",  OPT_FLAG, &o.follows,         NULL,   "go on until all have ended"},
		COMMON_ROWS(o),
		{0,   "keep-volumes", OPT_FLAG, &o.keeps_volumes, NULL, "leave the volumes"},
	};
	/* clang-format on */

	static_assert(ARRAY_SIZE(rows) == N_ROWS, "a row belongs to no subcommand");
	word_first(argc, argv);
	status = group_main(&group, rows, &o, argc, argv);
	opt_list_done(&o.profiles);
	opt_list_done(&o.allow);
	opt_list_done(&o.env);
	return status;
}
