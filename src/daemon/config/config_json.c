// SPDX-License-Identifier: Apache-2.0
/*
 * Each row of the table with a place in the file, and the options that hold for as long as the
 * daemon runs. Values are as the file has them. A setting that the operator has not given is what
 * the host says, where the daemon asks it, else the default.
 *
 * A reload reads the file and the same command line again. So what the command line or the
 * environment gives needs a restart to change, whatever the setting.
 */
#include "daemon/config/config_json.h"

#include "base/json/json.h"
#include "daemon/config/setting.h"

#include <string.h>

#define HIDDEN "***"

static const char *const kinds[] = {
	[SETTING_STRING] = "string",     [SETTING_LIST] = "list",     [SETTING_BOOL] = "bool",
	[SETTING_COUNT] = "count",       [SETTING_COUNT64] = "count", [SETTING_SIZE] = "size",
	[SETTING_DURATION] = "duration", [SETTING_CPUS] = "cpus",     [SETTING_LEVEL] = "level",
	[SETTING_MONEY] = "money",
};

static const char *const origins[] = {
	[ORIGIN_DEFAULT] = "default",
	[ORIGIN_FILE] = "file",
	[ORIGIN_ENVIRONMENT] = "environment",
	[ORIGIN_OPTION] = "command_line",
};

static const char *file_of(const struct config *c)
{
	return c->file ? c->file : CONFIG_FILE;
}

/* Replaces what stands before the host of a URL: a user, mostly with a password. */
static bool hide_user(char **text)
{
	char *scheme = strstr(*text, "://");
	char *user = scheme ? scheme + 3 : NULL, *at = user;
	char *shown;

	if (!user)
		return false;
	for (char *p = user; *p && !strchr("/?#\"", *p); p++)
		if (*p == '@')
			at = p;
	if (at == user)
		return false;
	shown = xasprintf("%.*s" HIDDEN "%s", (int)(user - *text), *text, at);
	free(*text);
	*text = shown;
	return true;
}

/* Takes a value as a file has it; "" is null. */
static json_t *value_json(char *text, bool *is_hidden)
{
	json_t *value;

	if (hide_user(&text))
		*is_hidden = true;
	value = text[0] ? json_loads(text, JSON_DECODE_ANY, NULL) : json_null();
	free(text);
	return value ? value : json_null(); /* an option that is no UTF-8 */
}

static json_t *origin_json(const struct config *c, const struct origin *o)
{
	bool is_file = o->from == ORIGIN_FILE, is_variable = o->from == ORIGIN_ENVIRONMENT;
	const char *file = o->place ? o->place : file_of(c);

	return json_pack("{s:s, s:s?, s:o, s:s?}", "from", origins[o->from], "file",
	                 is_file ? file : NULL, "line",
	                 is_file && o->line > 0 ? json_integer(o->line) : json_null(), "variable",
	                 is_variable ? o->place : NULL);
}

/* The socket lies in the run directory unless it is said where; other defaults stand alone. */
static int init_usual(struct config *usual, const struct config *c, struct err *err)
{
	config_init(usual);
	usual->socket = xasprintf("%s/cloche.sock", c->run_dir);
	return config_check(usual, err);
}

struct row {
	const struct config *c, *usual;
	const struct setting *key;
	const struct setting_state *state;
	const struct found_setting *found; /* or NULL */
};

static struct origin origin_of(const struct row *r)
{
	return r->found ? r->found->origin : r->state->origin;
}

static char *text_of(const struct row *r)
{
	json_t *text = r->found ? json_string(r->found->value) : NULL;
	char *quoted = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;

	json_decref(text);
	return quoted ? quoted : setting_text(r->c, r->key);
}

static char *usual_text(const struct row *r)
{
	bool is_found = r->found && r->found->origin.from == ORIGIN_DEFAULT;

	return is_found ? text_of(r) : setting_text(r->usual, r->key);
}

static const char *needs(const struct row *r)
{
	enum origin_from from = origin_of(r).from;

	if (r->key->is_fixed || from == ORIGIN_OPTION || from == ORIGIN_ENVIRONMENT)
		return "restart";
	return "reload";
}

static json_t *pending_json(const struct row *r, bool *is_hidden)
{
	if (!r->state->pending)
		return json_null();
	return json_pack("{s:o, s:o}", "value", value_json(xstrdup(r->state->pending), is_hidden),
	                 "origin", origin_json(r->c, &r->state->pending_origin));
}

static json_t *row_json(const struct row *r)
{
	const struct setting *k = r->key;
	auto_free char *name =
		k->section ? xasprintf("%s%s%s", k->section, k->section[0] ? "." : "", k->name)
			   : xasprintf("--%s", k->option);
	auto_free char *option = xasprintf("--%s", k->option);
	auto_free char *now = text_of(r), *usual = usual_text(r);
	struct origin origin = origin_of(r);
	bool is_overriding = origin.from == ORIGIN_OPTION && origin.line > 0;
	bool is_hidden = false;
	json_t *pending = pending_json(r, &is_hidden);
	json_t *value = value_json(xstrdup(now), &is_hidden);
	json_t *without = value_json(xstrdup(usual), &is_hidden);

	return json_pack("{s:s, s:s, s:s, s:o, s:o, s:b, s:b, s:o, s:o, s:s, s:o, s:s}", "name",
	                 name, "option", option, "kind", kinds[k->kind], "value", value, "default",
	                 without, "changed", strcmp(now, usual) != 0, "hidden", is_hidden, "origin",
	                 origin_json(r->c, &origin), "overridden_line",
	                 is_overriding ? json_integer(origin.line) : json_null(), "needs", needs(r),
	                 "pending", pending, "help", k->help);
}

static const struct found_setting *find(const struct row *r, const struct found_setting *found,
                                        size_t n)
{
	if (r->state->origin.from != ORIGIN_DEFAULT)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (found[i].value && strcmp(found[i].option, r->key->option) == 0)
			return &found[i];
	return NULL;
}

json_t *config_json(const struct config *c, const struct found_setting *found, size_t n_found,
                    struct err *err)
{
	json_t *rows = json_array();
	struct config usual;
	int r = init_usual(&usual, c, err);

	for (size_t i = 0; r == 0 && i < n_settings; i++) {
		struct row row = {
			.c = c, .usual = &usual, .key = &settings[i], .state = &c->states[i]};

		if (!settings[i].section && !settings[i].is_fixed)
			continue; /* it is about one call */
		row.found = find(&row, found, n_found);
		if (json_array_append_new(rows, row_json(&row)) < 0)
			r = err_set(err, ERR_INTERNAL, 0, "cannot describe the setting '%s'",
			            settings[i].option);
	}
	config_done(&usual);
	if (r == 0)
		return json_pack("{s:{s:s, s:b}, s:o}", "file", "path", file_of(c), "present",
		                 c->is_file_read, "settings", rows);
	json_decref(rows);
	return NULL;
}
