// SPDX-License-Identifier: Apache-2.0
/*
 * Theory of operation: a table has a row for each kind of word, by the option whose value it is or
 * by what usage calls it; the option's row goes first, as --help calls many values NAME. A row has
 * the words that there are, or the list of the API that has their names. A shell waits while this
 * works, so all of it may take ANSWER_S: then what was told so far is all.
 */
#include "cli/operate/completion_values.h"

#include "cli/term/text.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_S 2

struct kind {
	const char *word;   /* "--engine" or "SANDBOX" */
	const char *fixed;  /* words with blanks between them, or NULL */
	const char *list;   /* of the API, or NULL; below the word before if is_inside */
	const char *about;  /* the field that says more of one */
	const char *suffix; /* what belongs behind a name, or NULL */
	bool is_inside;     /* it is of the sandbox that is named before */
};

/* clang-format off */
static const struct kind kinds[] = {
	{"--allow",       "pip npm apt"},
	{"--by",          "project sandbox day"},
	{"--engine",      "auto jail vm"},
	{"--key",         NULL, "keys",      "name"},
	{"--on-conflict", "fail skip theirs"},
	{"--project",     NULL, "projects",  "id"},
	{"--sandbox",     NULL, "sandboxes", "state"},
	{"--snapshot",    NULL, "snapshots", "sandbox_id"},
	{"--sort",        "cpu memory disk"},
	{"--template",    NULL, "templates", "description"},
	{"--volume",      NULL, "volumes",   "id", ":"},
	{"ACTION",        "delete stop pause"},
	{"BUILD_ID",      NULL, "builds",    "name"},
	{"CONTEXT",       NULL, "contexts",  "language", .is_inside = true},
	{"EXEC",          NULL, "execs",     "state", .is_inside = true},
	{"FORK",          NULL, "sandboxes", "state"},
	{"FROM",          NULL, "sandboxes", "state"},
	{"FROM",          NULL, "snapshots", "sandbox_id"},
	{"GRADE",         "process emulated hardware"},
	{"HOST",          "pip npm apt"},
	{"KEY_ID",        NULL, "keys",      "name"},
	{"LANG",          "python javascript typescript bash r java py js ts sh"},
	{"NAME|FILE|CONTEXT", "base python python-datasci node node22 node26 bun universal r java claude codex opencode mcp-gateway kernel"},
	{"PLACE",         "disk memory"},
	{"POLICY",        "deny-all allow-all"},
	{"PROJECT",       NULL, "projects",  "id"},
	{"RANGE",         "1h 24h 7d 30d"},
	{"SANDBOX",       NULL, "sandboxes", "state"},
	{"SANDBOX:PATH",  NULL, "sandboxes", "state", ":"},
	{"SANDBOX|SNAPSHOT", NULL, "sandboxes", "state"},
	{"SANDBOX|SNAPSHOT", NULL, "snapshots", "sandbox_id"},
	{"SCOPE",         "read write admin"},
	{"SECRET",        NULL, "secrets",   "id"},
	{"SIGNAL",        "TERM INT KILL HUP QUIT USR1 USR2 STOP CONT"},
	{"SNAPSHOT",      NULL, "snapshots", "sandbox_id"},
	{"TEMPLATE",      NULL, "templates", "description"},
	{"TO",            NULL, "sandboxes", "state"},
	{"TO",            NULL, "snapshots", "sandbox_id"},
	{"VOLUME",        NULL, "volumes",   "id"},
	{"WEBHOOK_ID",    NULL, "webhooks",  "url"},
};
/* clang-format on */

struct telling {
	struct command *command;
	const struct complete_place *place;
	complete_fn fn;
	void *arg;
};

/* What the daemon told is not let near a terminal as it is. */
static bool is_plain(const char *name)
{
	for (const char *p = name; *p; p++)
		if ((unsigned char)*p <= ' ' || *p == 0x7f)
			return false;
	return *name != '\0';
}

static void tell(const struct telling *t, const struct kind *k, const char *name, const char *about)
{
	const char *glued = t->place->prefix - t->place->glued;
	auto_free char *word = NULL;

	if (!is_plain(name) || strncmp(name, t->place->prefix, strlen(t->place->prefix)) != 0)
		return;
	word = xasprintf("%.*s%s%s", (int)t->place->glued, glued, name, k->suffix ? k->suffix : "");
	t->fn(word, strlen(word), about, strlen(about), t->arg);
}

static void tell_fixed(const struct telling *t, const struct kind *k)
{
	for (const char *at = k->fixed; *at; at += strspn(at, " ")) {
		auto_free char *word = xstrndup(at, strcspn(at, " "));

		tell(t, k, word, "");
		at += strlen(word);
	}
}

/* Names first: they are what people have in mind. What has no name of its own use has its id. */
static void tell_list(const struct telling *t, const struct kind *k)
{
	struct command *c = t->command;
	const char *segments[3];
	auto_json json_t *list = json_array();
	auto_free char *path = NULL;
	const json_t *one;
	struct err err;
	size_t i, n = 0;

	if (k->is_inside) {
		segments[n++] = "sandboxes";
		segments[n++] = t->place->before ? t->place->before : "";
	}
	segments[n++] = k->list;
	path = remote_path_of(segments, n);
	if ((!c->remote && remote_open(&c->common, &c->remote, &err) < 0) ||
	    remote_list(c->remote, path, k->list, list, &err) < 0)
		return;
	json_array_foreach(list, i, one)
	{
		auto_free char *about = text_escaped(command_text(one, k->about));

		if (strcmp(k->about, "name") != 0)
			tell(t, k, command_text(one, "name"), about);
		tell(t, k, command_text(one, "id"), about);
	}
}

static void on_alarm(int signo)
{
	(void)signo;
	_exit(0);
}

static bool tell_kind(const struct telling *t, const char *word, size_t len)
{
	bool is_known = false;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const struct kind *k = &kinds[i];

		if (strlen(k->word) != len || memcmp(k->word, word, len) != 0)
			continue;
		is_known = true;
		if (k->fixed)
			tell_fixed(t, k);
		else
			tell_list(t, k);
		(void)fflush(stdout);
	}
	return is_known;
}

void completion_values(struct command *c, const struct complete_place *place, complete_fn fn,
                       void *arg)
{
	const struct telling t = {c, place, fn, arg};

	(void)fflush(stdout);
	(void)signal(SIGALRM, on_alarm);
	(void)alarm(ANSWER_S);
	if (tell_kind(&t, place->option, strlen(place->option)))
		return;
	for (const char *at = place->kinds; *at;) {
		size_t len = strcspn(at, "\n");

		(void)tell_kind(&t, at, len);
		at += len + 1;
	}
}
