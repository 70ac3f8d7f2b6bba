// SPDX-License-Identifier: Apache-2.0
#include "base/text/missing.h"

#include "base/auto.h"

#include <stdio.h>
#include <string.h>

#define NAME_SIZE 65
#define LINE_SIZE 512

/* Python packages that are called otherwise than their modules. */
static const struct {
	const char *module, *package;
} packages[] = {
	{"PIL", "pillow"},
	{"bs4", "beautifulsoup4"},
	{"cv2", "opencv-python-headless"},
	{"dateutil", "python-dateutil"},
	{"docx", "python-docx"},
	{"dotenv", "python-dotenv"},
	{"sklearn", "scikit-learn"},
	{"yaml", "pyyaml"},
};
/* What guest/templates/universal.toml has beside Python itself. */
static const char *const common[] = {"IPython",  "PIL",      "bokeh",   "bs4",     "matplotlib",
                                     "numpy",    "openpyxl", "pandas",  "plotly",  "pyarrow",
                                     "requests", "scipy",    "seaborn", "sklearn", "sympy"};

/* The name that begins at text and ends before one of ends. */
static bool take_name(const char *text, const char *ends, const char *letters, char ret[NAME_SIZE])
{
	const size_t len = strcspn(text, ends);

	if (len == 0 || len >= NAME_SIZE || text[len] == '\0' || strspn(text, letters) < len)
		return false;
	memcpy(ret, text, len);
	ret[len] = '\0';
	return true;
}

#define WORD_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

static bool is_common(const char *module)
{
	for (size_t i = 0; i < ARRAY_SIZE(common); i++)
		if (strcmp(common[i], module) == 0)
			return true;
	return false;
}

static void say_module(const char *module, char hint[MISSING_HINT_SIZE])
{
	const char *package = module;

	for (size_t i = 0; i < ARRAY_SIZE(packages); i++)
		if (strcmp(packages[i].module, module) == 0)
			package = packages[i].package;
	(void)snprintf(hint, MISSING_HINT_SIZE,
	               "the sandbox has no module '%s': %sadd the package when you create the "
	               "sandbox (--package %s)",
	               module,
	               is_common(module)
	                       ? "the template universal has it (--template universal), or "
	                       : "",
	               package);
}

static bool of_python(const char *line, char hint[MISSING_HINT_SIZE])
{
	static const char begin[] = "ModuleNotFoundError: No module named '";
	char module[NAME_SIZE];

	if (strncmp(line, begin, strlen(begin)) != 0 ||
	    !take_name(line + strlen(begin), ".'", WORD_LETTERS, module))
		return false;
	say_module(module, hint);
	return true;
}

/* Of a package, and not of a file of the program's own. */
static bool of_node(const char *line, char hint[MISSING_HINT_SIZE])
{
	static const char *const begins[] = {"Error: Cannot find module '",
	                                     "Error [ERR_MODULE_NOT_FOUND]: Cannot find package '"};
	char module[NAME_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(begins); i++) {
		const char *name = line + strlen(begins[i]);

		if (strncmp(line, begins[i], strlen(begins[i])) != 0 ||
		    !take_name(name, name[0] == '@' ? "'" : "/'", WORD_LETTERS "-.@/", module) ||
		    module[0] == '.' || module[0] == '/')
			continue;
		(void)snprintf(hint, MISSING_HINT_SIZE,
		               "the sandbox has no module '%s': add the package when you create "
		               "the sandbox (--package npm:%s)",
		               module, module);
		return true;
	}
	return false;
}

static bool of_shell(const char *line, char hint[MISSING_HINT_SIZE])
{
	static const char *const ends[] = {": command not found", ": not found"};
	char program[NAME_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		const char *end = strstr(line, ends[i]);
		const char *begin = end;

		if (!end || strcmp(end, ends[i]) != 0)
			continue;
		while (begin > line && begin[-1] != ' ')
			begin--;
		if (!take_name(begin, ":", WORD_LETTERS "-.+", program))
			continue;
		(void)snprintf(hint, MISSING_HINT_SIZE,
		               "the sandbox has no program '%s': " MISSING_PROGRAM_HINT, program);
		return true;
	}
	return false;
}

/* What a policy denies says so itself (wall/conn.c); where there is none, nothing answers. */
static bool of_network(const char *line, char hint[MISSING_HINT_SIZE])
{
	static const char *const words[] = {
		"Could not resolve host", "Temporary failure in name resolution",
		"getaddrinfo EAI_AGAIN", "Temporary failure resolving", "Network is unreachable"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (!strstr(line, words[i]))
			continue;
		(void)snprintf(hint, MISSING_HINT_SIZE,
		               "a sandbox has no network unless it is given one: create it with "
		               "--allow HOST (--allow pip, npm or apt for packages), or run "
		               "'cloche network allow SANDBOX HOST'");
		return true;
	}
	return false;
}

bool missing_hint(const char *line, char hint[MISSING_HINT_SIZE])
{
	return of_python(line, hint) || of_node(line, hint) || of_shell(line, hint) ||
	       of_network(line, hint);
}

bool missing_hint_in(const char *text, size_t len, char hint[MISSING_HINT_SIZE])
{
	bool is_found = false;

	while (len > 0) {
		const char *end = memchr(text, '\n', len);
		const size_t n = end ? (size_t)(end - text) : len;
		char line[LINE_SIZE];

		if (n < sizeof(line)) {
			memcpy(line, text, n);
			line[n] = '\0';
			is_found |= missing_hint(line, hint);
		}
		text += n + (end != NULL);
		len -= n + (end != NULL);
	}
	return is_found;
}
