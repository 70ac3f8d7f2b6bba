// SPDX-License-Identifier: Apache-2.0
#include "daemon/probe/registries.h"

#include "base/auto.h"
#include "base/fd.h"
#include "base/log.h"
#include "net/match/url.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX 65536
#define BLANKS   " \t\r"

/* Later files override earlier ones, as in the programs. */
static const char *const npm_variables[] = {"npm_config_registry", "NPM_CONFIG_REGISTRY", NULL};
static const char *const npm_files[] = {"/usr/etc/npmrc", "/usr/local/etc/npmrc", "/etc/npmrc",
                                        "/root/.npmrc", NULL};
static const char *const pip_variables[] = {"PIP_INDEX_URL", NULL};
static const char *const pip_files[] = {"/etc/xdg/pip/pip.conf", "/etc/pip.conf",
                                        "/root/.pip/pip.conf", "/root/.config/pip/pip.conf", NULL};

char *registries_find(const char *text, const char *key)
{
	size_t len = strlen(key);
	char *found = NULL;

	for (const char *line = text; line; line = strchr(line, '\n')) {
		const char *value;
		size_t n;

		line += strspn(line, BLANKS "\n");
		if (strncmp(line, key, len) != 0)
			continue;
		value = line + len + strspn(line + len, BLANKS);
		if (*value != '=')
			continue;
		value += 1 + strspn(value + 1, BLANKS "\"");
		n = strcspn(value, BLANKS "\"\n");
		free(found);
		found = xstrndup(value, n);
	}
	return found;
}

/* Takes url; *to keeps its value if this is not a usable one. */
static void offer(char **to, struct origin *origin, char *url, enum origin_from from,
                  const char *place)
{
	struct url parsed;
	const char *why;

	if (!url || url[0] == '\0') {
		free(url);
	} else if (url_parse(url, strlen(url), &parsed, &why) < 0) {
		log_warn("templates.registry", "from=%s message='is not taken: %s'", place, why);
		free(url);
	} else {
		free(*to);
		*to = url;
		*origin = (struct origin){.from = from, .place = place};
	}
}

static char *find(const char *const *variables, const char *const *files, const char *key,
                  struct origin *origin)
{
	auto_free char *text = xcalloc(1, FILE_MAX);
	char *url = NULL;

	for (; *files; files++)
		if (fd_read_file(AT_FDCWD, *files, text, FILE_MAX) > 0)
			offer(&url, origin, registries_find(text, key), ORIGIN_FILE, *files);
	for (; *variables; variables++)
		if (getenv(*variables))
			offer(&url, origin, xstrdup(getenv(*variables)), ORIGIN_ENVIRONMENT,
			      *variables);
	return url;
}

void registries_read(struct host_registries *r)
{
	r->npm = find(npm_variables, npm_files, "registry", &r->npm_origin);
	r->pip = find(pip_variables, pip_files, "index-url", &r->pip_origin);
}

void registries_done(struct host_registries *r)
{
	free(r->npm);
	free(r->pip);
	*r = (struct host_registries){0};
}
