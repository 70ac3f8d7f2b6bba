// SPDX-License-Identifier: Apache-2.0
/* `cloche`: the command table. */
#include "base/text/nearest.h"
#include "cli/frame/commands.h"
#include "cli/term/text.h"
#include "daemon/daemon.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
} commands[] = {
	{"run",     cmd_run,        "run code, a file or a command in a fresh sandbox"},
	{"create",  cmd_create,     "create a sandbox that stays"},
	{"exec",    cmd_exec,       "run a command in a sandbox"},
	{"shell",   cmd_shell,      "open a terminal in a sandbox"},
	{"code",    cmd_code,       "run code in an interpreter that keeps its variables"},
	{"repl",    cmd_repl,       "open a prompt on such an interpreter"},
	{"context", cmd_context,    "list, make, restart and remove interpreters"},
	{"ps",      cmd_ps,         "list sandboxes, or the execs of one"},
	{"inspect", cmd_inspect,    "show everything about a sandbox or an exec"},
	{"logs",    cmd_logs,       "print what an exec has written"},
	{"results", cmd_results,    "list and fetch what is kept of a sandbox that has ended"},
	{"url",     cmd_url,        "open a port, and print the link to it"},
	{"port-forward", cmd_port_forward, "connect a port of this machine to one inside"},
	{"cp",      cmd_cp,         "copy files in and out"},
	{"signal",  cmd_signal,     "send a signal to an exec"},
	{"stop",    cmd_stop,       "end the processes of sandboxes"},
	{"pause",   cmd_pause,      "pause sandboxes, on disk or in memory"},
	{"resume",  cmd_resume,     "resume paused sandboxes, or start stopped ones again"},
	{"extend",  cmd_extend,     "add to a sandbox's lifetime"},
	{"rm",      cmd_rm,         "end sandboxes and remove their files"},
	{"template", cmd_template,  "what sandboxes start from: build, make, list and remove"},
	{"snapshot", cmd_snapshot,  "save what a sandbox is now; list and remove snapshots"},
	{"pool",    cmd_pool,       "sandboxes that are made ahead: reserve, list and remove"},
	{"volume",  cmd_volume,     "files that outlive sandboxes: make, list and remove"},
	{"compose", cmd_compose,    "run the services of a Compose file, in sandboxes that reach each other"},
	{"fork",    cmd_fork,       "make copies of a sandbox as it is now"},
	{"rollback", cmd_rollback,  "bring a sandbox back to a snapshot"},
	{"diff",    cmd_diff,       "tell what differs between two snapshots or sandboxes"},
	{"apply",   cmd_apply,      "bring a fork's changes into its parent"},
	{"tree",    cmd_tree,       "draw which sandbox comes from which"},
	{"network", cmd_network,    "show, change, explain and suggest what a sandbox may reach"},
	{"dashboard", cmd_dashboard, "open the dashboard in a browser"},
	{"trust",     cmd_trust,     "print what a client needs to reach sandboxes by name and TLS"},
	{"login",   cmd_login,      "log in at the daemon's provider, as a person"},
	{"logout",  cmd_logout,     "end that login"},
	{"whoami",  cmd_whoami,     "show which person or key you are, and in which project"},
	{"top",     cmd_top,        "show what running sandboxes use, live"},
	{"history", cmd_history,    "show what was used in the last hour, day, week or month"},
	{"usage",   cmd_usage,      "say what was used, and what it cost"},
	{"quota",   cmd_quota,      "show and set what may be used"},
	{"key",     cmd_key,        "create, list and revoke API keys"},
	{"project", cmd_project,    "create, list and remove projects: tenants that do not see each other"},
	{"secret",  cmd_secret,     "keep keys and passwords that sandboxes use and cannot read"},
	{"identity", cmd_identity,  "show and rotate the keys of tokens that say what a sandbox is"},
	{"webhook", cmd_webhook,    "send events to a URL"},
	{"events",  cmd_events,     "print what happened, follow it, check the record"},
	{"audit",   cmd_audit,      "export the record of who did what, sealed, and check an export"},
	{"eval",    cmd_eval,       "run cases against code or a model, and say which pass"},
	{"mcp",     cmd_mcp,        "serve sandboxes to an agent over stdin and stdout (MCP)"},
	{"serve",   serve_command,  "run the daemon"},
	{"settings", cmd_settings,  "show the daemon's settings, and where each value comes from"},
	{"cluster", cmd_cluster,    "make several machines one: make a cluster, invite nodes, show their state"},
	{"node",    cmd_node,       "join a cluster, and list its nodes"},
	{"backup",  cmd_backup,     "copy all that the daemon keeps, while it runs"},
	{"restore", cmd_restore,    "put a backup back into an empty data directory"},
	{"doctor",  cmd_doctor,     "say what this host can do, and how to get more"},
	{"completion", cmd_completion, "let a shell complete what you type"},
	{"version", cmd_version,    "print versions"},
};
/* What other programs call it. */
static const struct {
	const char *word, *name;
} synonyms[] = {
	{"attach", "shell"},   {"build", "template build"}, {"delete", "rm"},
	{"image", "template"}, {"images", "template ls"},   {"kill", "rm"},
	{"list", "ps"},        {"ls", "ps"},                
	{"new", "create"},     {"port", "url"},             {"remove", "rm"},
	{"sandboxes", "ps"},   {"ssh", "shell"},            {"start", "resume"},
	{"stats", "top"},      {"terminal", "shell"},       {"test", "eval"},
	{"config", "settings"},
};
/* clang-format on */

static const char *find_meant(const char *word)
{
	struct nearest near;

	for (size_t i = 0; i < ARRAY_SIZE(synonyms); i++)
		if (strcmp(word, synonyms[i].word) == 0)
			return synonyms[i].name;
	nearest_init(&near, word, strlen(word));
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		nearest_try(&near, commands[i].name);
	return near.best;
}

static int refuse(const char *word)
{
	const char *meant = find_meant(word);
	struct err err;

	(void)err_set(&err, ERR_INVALID_FIELD, 0, "there is no command '%s'", word);
	if (meant)
		(void)err_hint(&err, "did you mean 'cloche %s'? 'cloche --help' lists them all",
		               meant);
	else
		(void)err_hint(&err, "'cloche --help' lists them");
	return text_fail(&err);
}

static int print_help(FILE *out, int status)
{
	(void)fputs("Usage: cloche COMMAND [OPTIONS] [WORDS…]\n\n"
	            "Runs code that an AI wrote, on a machine you own, where it can do no harm.\n\n"
	            "Commands:\n",
	            out);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		(void)fprintf(out, "  %-14s%s\n", commands[i].name, commands[i].summary);
	(void)fputs(
		"\n"
		"'cloche COMMAND --help' explains each, with examples. All but serve take --json.\n"
		"\n"
		"Environment:\n"
		"  CLOCHE_URL      the daemon: http://HOST:PORT, https://HOST, unix:/PATH\n"
		"                  (default /run/cloche/cloche.sock, then 127.0.0.1:7070)\n"
		"  CLOCHE_API_KEY  the key to open it with\n"
		"  CLOCHE_PROJECT  which of your projects, if `cloche login` gave you several\n"
		"\n"
		"Examples:\n"
		"  cloche run -c 'print(6*7)'\n"
		"  cloche repl\n"
		"  cloche create --name box && cloche exec box ls -la && cloche rm box\n",
		out);
	return status;
}

static bool is_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return print_help(stderr, EXIT_CLOCHE);
	if (is_help(argv[1]))
		return print_help(stdout, 0);
	if (strcmp(argv[1], "--version") == 0)
		argv[1] += 2;
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	return refuse(argv[1]);
}
