// SPDX-License-Identifier: Apache-2.0
#include "cli/session/script_language.h"

#include <string.h>

/* clang-format off */
static const struct language languages[] = {
	{"python",     "python3", "-c", NULL,     "py ",         "py"},
	{"javascript", "node",    "-e", "[eval]", "js mjs cjs ", "js"},
	{"typescript", "node",    NULL, NULL,     "ts mts cts ", "ts"},
	{"bash",       "bash",    "-c", "bash",   "sh bash ",    "sh"},
	{"r",          "Rscript", "-e", NULL,     "R r ",        "R"},
	{"java",       "java",    NULL, NULL,     "java ",       "java"},
};
/* clang-format on */

const struct language *const language_default = &languages[0];

const char *language_full_name(const char *name)
{
	static const char *const shorts[][2] = {{"py", "python"},     {"python3", "python"},
	                                        {"js", "javascript"}, {"node", "javascript"},
	                                        {"ts", "typescript"}, {"sh", "bash"}};

	for (size_t i = 0; name && i < ARRAY_SIZE(shorts); i++)
		if (strcmp(shorts[i][0], name) == 0)
			return shorts[i][1];
	return name;
}

const struct language *language_by_name(const char *name)
{
	name = language_full_name(name);
	for (size_t i = 0; i < ARRAY_SIZE(languages); i++)
		if (strcmp(languages[i].name, name) == 0)
			return &languages[i];
	return NULL;
}

const struct language *language_by_path(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *dot = strrchr(slash ? slash : path, '.');
	size_t len = dot ? strlen(dot + 1) : 0;

	for (size_t i = 0; len > 0 && i < ARRAY_SIZE(languages); i++)
		for (const char *p = languages[i].extensions; *p; p = strchr(p, ' ') + 1)
			if (strcspn(p, " ") == len && memcmp(p, dot + 1, len) == 0)
				return &languages[i];
	return NULL;
}

/* "#!/usr/bin/env python3 -u", "#!/bin/bash": the first word that is no path to env or option. */
const struct language *language_by_shebang(const char *line)
{
	static const struct {
		const char *program, *language;
	} programs[] = {{"python", "python"},     {"python3", "python"}, {"node", "javascript"},
	                {"nodejs", "javascript"}, {"bash", "bash"},      {"sh", "bash"},
	                {"Rscript", "r"},         {"java", "java"}};
	const char *p = line + 2;

	if (line[0] != '#' || line[1] != '!')
		return NULL;
	for (;;) {
		size_t len;
		const char *base;

		p += strspn(p, " \t");
		len = strcspn(p, " \t\r\n");
		if (len == 0)
			return NULL;
		base = memrchr(p, '/', len);
		base = base ? base + 1 : p;
		len = (size_t)(p + len - base);
		p = base + len;
		if (base[0] == '-' || (len == 3 && memcmp(base, "env", 3) == 0))
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
			if (strlen(programs[i].program) == len &&
			    memcmp(programs[i].program, base, len) == 0)
				return language_by_name(programs[i].language);
		return NULL;
	}
}

int script_read(int fd, const char *name, struct buf *ret, struct err *err)
{
	for (;;) {
		char *room;
		ssize_t n;

		if (buf_reserve(ret, 64 * 1024, &room) < 0)
			return err_set(err, ERR_TOO_LARGE, 0, "%s is larger than 16 MiB", name);
		n = read(fd, room, 64 * 1024);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, ERR_INTERNAL, errno, "cannot read %s", name);
		if (n == 0)
			return 0;
		buf_commit(ret, (size_t)n);
	}
}
