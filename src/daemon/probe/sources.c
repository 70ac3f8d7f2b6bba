// SPDX-License-Identifier: Apache-2.0
#include "daemon/probe/sources.h"

#include "base/buf.h"
#include "base/fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define FILE_MAX    65536
#define SOURCES_MAX 64
#define BLANKS      " \t"

static void append(struct sources *s, const char *options, const char *uri, const char *suite,
                   const char *components)
{
	size_t n = 0;

	while (s->lines && s->lines[n])
		n++;
	if (n == SOURCES_MAX)
		return;
	s->lines = xrealloc(s->lines, (n + 2) * sizeof(*s->lines));
	s->lines[n] = xasprintf("%s %s %s %s", options, uri, suite, components);
	s->lines[n + 1] = NULL;
}

static bool has_word(const char *words, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = words; (p = strstr(p, word)); p += len)
		if ((p == words || strchr(BLANKS, p[-1])) &&
		    (p[len] == '\0' || strchr(BLANKS, p[len])))
			return true;
	return false;
}

static bool is_usable(const char *uri, const char *components)
{
	return (strncmp(uri, "http://", 7) == 0 || strncmp(uri, "https://", 8) == 0) &&
	       has_word(components, "main");
}

/* apt's options in one word; only those about trust. */
static void format_options(const char *signed_by, bool is_trusted, char *ret, size_t size)
{
	if (is_trusted)
		(void)snprintf(ret, size, "[trusted=yes]");
	else if (signed_by && signed_by[0] == '/' && !strpbrk(signed_by, BLANKS "]"))
		(void)snprintf(ret, size, "[signed-by=%s]", signed_by);
	else
		(void)snprintf(ret, size, "[]");
}

/* Cuts the next word off, or NULL. */
static char *next_word(char **rest)
{
	char *word = *rest + strspn(*rest, BLANKS);
	char *end = word + strcspn(word, BLANKS);

	*rest = *end ? end + 1 : end;
	*end = '\0';
	return *word ? word : NULL;
}

/* "deb [OPTIONS] URI SUITE COMPONENT…" */
static void parse_line(struct sources *s, char *line)
{
	char *rest = line, *type = next_word(&rest), *uri, *suite;
	const char *signed_by = NULL;
	bool is_trusted = false;
	char options[512];

	if (!type || strcmp(type, "deb") != 0)
		return;
	rest += strspn(rest, BLANKS);
	if (*rest == '[') {
		char *end = strchr(rest, ']');
		char *word, *inside = rest + 1;

		if (!end)
			return;
		*end = '\0';
		while ((word = next_word(&inside))) {
			if (strncmp(word, "signed-by=", 10) == 0)
				signed_by = word + 10;
			is_trusted = is_trusted || strcmp(word, "trusted=yes") == 0;
		}
		rest = end + 1;
	}
	uri = next_word(&rest);
	suite = uri ? next_word(&rest) : NULL;
	rest += strspn(rest, BLANKS);
	if (!suite || !is_usable(uri, rest))
		return;
	format_options(signed_by, is_trusted, options, sizeof(options));
	append(s, options, uri, suite, "main");
}

struct paragraph {
	char *types, *uris, *suites, *components, *signed_by, *trusted, *enabled;
};

static void paragraph_done(struct paragraph *p)
{
	free(p->types);
	free(p->uris);
	free(p->suites);
	free(p->components);
	free(p->signed_by);
	free(p->trusted);
	free(p->enabled);
	*p = (struct paragraph){0};
}

static bool is_word(const char *text, const char *word)
{
	return text && strcmp(text, word) == 0;
}

static void end_paragraph(struct sources *s, struct paragraph *p)
{
	char options[512];
	char *uris = p->uris, *uri;

	if (p->types && has_word(p->types, "deb") && uris && p->suites && p->components &&
	    !is_word(p->enabled, "no")) {
		format_options(p->signed_by, is_word(p->trusted, "yes"), options, sizeof(options));
		while ((uri = next_word(&uris))) {
			auto_free char *copy = xstrdup(p->suites);
			char *suites = copy, *suite;

			while (is_usable(uri, p->components) && (suite = next_word(&suites)))
				append(s, options, uri, suite, "main");
		}
	}
	paragraph_done(p);
}

static void parse_field(struct paragraph *p, char *line)
{
	char *colon = strchr(line, ':');
	const struct {
		const char *name;
		char **at;
	} fields[] = {
		{"types", &p->types},         {"uris", &p->uris},
		{"suites", &p->suites},       {"components", &p->components},
		{"signed-by", &p->signed_by}, {"trusted", &p->trusted},
		{"enabled", &p->enabled},
	};

	if (!colon)
		return;
	*colon = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (strcasecmp(fields[i].name, line) != 0)
			continue;
		free(*fields[i].at);
		*fields[i].at = xstrdup(colon + 1 + strspn(colon + 1, BLANKS));
	}
}

static void trim(char *line)
{
	size_t len = strlen(line);

	while (len > 0 && strchr(BLANKS "\r", line[len - 1]))
		line[--len] = '\0';
}

void sources_parse(struct sources *s, const char *text, bool is_paragraphs)
{
	auto_free char *copy = xstrdup(text);
	struct paragraph p = {0};
	char *line = copy;

	while (line) {
		char *end = strchr(line, '\n');

		if (end)
			*end = '\0';
		if (!is_paragraphs)
			line[strcspn(line, "#")] = '\0';
		trim(line);
		if (!is_paragraphs)
			parse_line(s, line);
		else if (line[0] == '\0')
			end_paragraph(s, &p);
		else if (!strchr("# \t", line[0])) /* what goes on is a key, which is not used */
			parse_field(&p, line);
		line = end ? end + 1 : NULL;
	}
	end_paragraph(s, &p);
}

static bool has_end(const char *name, const char *end)
{
	size_t len = strlen(name), n = strlen(end);

	return len > n && strcmp(name + len - n, end) == 0;
}

static void read_file(struct sources *s, int dir_fd, const char *path)
{
	auto_free char *text = xcalloc(1, FILE_MAX);

	if (fd_read_file(dir_fd, path, text, FILE_MAX) > 0)
		sources_parse(s, text, has_end(path, ".sources"));
}

static void read_dir(struct sources *s, const char *path)
{
	struct dirent **names = NULL;
	int n = scandir(path, &names, NULL, alphasort);
	auto_fd int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < n; i++) {
		if (has_end(names[i]->d_name, ".list") || has_end(names[i]->d_name, ".sources"))
			read_file(s, fd, names[i]->d_name);
		free(names[i]);
	}
	free(names);
}

static void read_codename(struct sources *s)
{
	static const char key[] = "\nVERSION_CODENAME=";
	char text[4096] = "\n";
	const char *found;

	if (fd_read_file(AT_FDCWD, "/etc/os-release", text + 1, sizeof(text) - 1) <= 0)
		return;
	found = strstr(text, key);
	if (found) {
		found += sizeof(key) - 1;
		s->codename = xstrndup(found, strcspn(found, "\n"));
	}
}

void sources_read(struct sources *s, const char *path)
{
	auto_free char *list = xasprintf("%s/sources.list", path);
	auto_free char *parts = xasprintf("%s/sources.list.d", path);
	auto_fd int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	*s = (struct sources){0};
	if (dir >= 0) {
		read_file(s, AT_FDCWD, list);
		read_dir(s, parts);
	} else {
		read_file(s, AT_FDCWD, path);
	}
	read_codename(s);
}

void sources_done(struct sources *s)
{
	for (char **p = s->lines; p && *p; p++)
		free(*p);
	free(s->lines);
	free(s->codename);
	*s = (struct sources){0};
}
