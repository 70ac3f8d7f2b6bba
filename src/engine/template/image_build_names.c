// SPDX-License-Identifier: Apache-2.0
#include "engine/template/image_build_names.h"

#include "base/fs/walk.h"

#include <fcntl.h>
#include <regex.h>
#include <string.h>

#define NAME_LEN_MAX 254
#define SHOWN        100 /* bytes of the path in the error */

static bool matches(const char *pattern, const char *path)
{
	regex_t regex;
	bool is_match;

	if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) != 0)
		return false;
	is_match = regexec(&regex, path, 0, NULL, 0) == 0;
	regfree(&regex);
	return is_match;
}

/* Whether it, or a directory that contains it, is left out. */
static bool is_left_out(const char *const *left_out, size_t n, const char *path)
{
	auto_free char *part = xstrdup(path);

	for (char *slash = part; slash; slash = strchr(slash + 1, '/')) {
		bool is_whole = slash == part;

		if (!is_whole)
			*slash = '\0';
		for (size_t i = 0; i < n; i++)
			if (matches(left_out[i], part))
				return true;
		if (!is_whole)
			*slash = '/';
	}
	return false;
}

static int refuse(const struct walk_entry *e, struct err *err)
{
	char shown[SHOWN + 1];
	size_t len = strnlen(e->path, SHOWN);

	memcpy(shown, e->path, len);
	shown[len] = '\0';
	for (char *p = shown; *p; p++) /* the sandbox's own word */
		if (*p < ' ' || *p > '~' || *p == '\'')
			*p = '?';
	(void)err_set(err, ERR_FILE_INVALID, 0,
	              "'%s...' has a name of %zu bytes; in a template %d is the most", shown,
	              strlen(e->name), NAME_LEN_MAX);
	return err_hint(err, "rename or remove the file");
}

int image_build_check_names(const char *const *left_out, size_t n, struct err *err)
{
	auto_call(walk_freep) struct walk *walk = NULL;
	int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
	struct walk_entry e;

	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot read the tree");
	r = walk_new(fd, /* is_lenient= */ true, &walk, err);
	while (r >= 0 && (r = walk_next(walk, &e, err)) > 0)
		if (strlen(e.name) > NAME_LEN_MAX && !is_left_out(left_out, n, e.path))
			return refuse(&e, err);
	return MIN(r, 0);
}
