// SPDX-License-Identifier: Apache-2.0
/* Names of templates: which are allowed, and which names of other services mean one of ours. */
#include "sandbox/storage/template.h"

#include "base/auto.h"

#include <stdio.h>
#include <string.h>

/* Names of runtimes and templates at other services, and our templates that fit, the best first. A
 * template that really has such a name comes first. */
static const struct {
	const char *alias, *name;
} aliases[] = {
	{"python3.13", "python"},
	{"python3", "python"},
	{"node24", "node"},
	{"node24", "universal"},
	{"nodejs", "node"},
	{"nodejs", "universal"},
	{"javascript", "node"},
	{"javascript", "universal"},
	{"code-interpreter", "universal"},
	{"code-interpreter", "python-datasci"},
	{"code-interpreter-v1", "universal"},
	{"code-interpreter-v1", "python-datasci"},
	{"vercel/sandbox/python3.13", "python"},
	{"vercel/sandbox/node24", "node"},
	{"vercel/sandbox/node24", "universal"},
	{"vercel/sandbox/node22", "node22"},
	{"vercel/sandbox/node26", "node26"},
	{"vercel/sandbox/node:24", "node"},
	{"vercel/sandbox/node:24", "universal"},
	{"vercel/sandbox/node:22", "node22"},
	{"vercel/sandbox/node:26", "node26"},
	{"vercel/sandbox/node", "node"},
	{"vercel/sandbox/node", "universal"},
	{"vercel/sandbox/python:3.13", "python"},
	{"vercel/sandbox/python", "python"},
	{"vercel/sandbox/universal", "universal"},
};

const char *template_alias(const char *word, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
		if (strcmp(aliases[i].alias, word) == 0 && n-- == 0)
			return aliases[i].name;
	return NULL;
}

void template_name_of_image(const char *reference, char *ret, size_t size)
{
	(void)snprintf(ret, size, "%s", reference);
	for (char *c = ret; *c; c++)
		if (strchr("/:@_", *c))
			*c = '-';
}

int template_check_name(const char *name, struct err *err)
{
	static const char ends[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	static const char inner[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
	size_t len = strlen(name);

	if (len < 1 || len > TEMPLATE_NAME_MAX || strspn(name, inner) != len ||
	    !strchr(ends, name[0]) || !strchr(ends, name[len - 1]))
		return err_field(
			err, "name",
			"must have up to %d of a-z, 0-9, with - _ and . inside, such as 'my-app'",
			TEMPLATE_NAME_MAX);
	if (strcmp(name, TEMPLATE_HOST) == 0)
		return err_field(err, "name", "'" TEMPLATE_HOST "' is this machine's own");
	if (strncmp(name, TEMPLATE_ID_PREFIX, strlen(TEMPLATE_ID_PREFIX)) == 0)
		return err_field(err, "name", "begins with '" TEMPLATE_ID_PREFIX "', as ids do");
	return 0;
}

void template_put_aliases(struct json_writer *w, const char *name)
{
	json_open_array(w, "aliases");
	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
		if (strcmp(aliases[i].name, name) == 0)
			json_put_str(w, NULL, aliases[i].alias);
	json_close_array(w);
}
