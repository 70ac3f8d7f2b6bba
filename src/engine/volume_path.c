// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <string.h>

/* Where a build has what its project keeps for builds: no image has it. */
static const char for_builds[] = "/opt/cloche/cache";
/* Paths that a sandbox needs itself: a volume there would hide them. */
static const char *const taken[] = {
	"/bin",  "/boot", "/dev", "/etc",        "/lib", "/lib32", "/lib64", "/libx32",
	"/proc", "/run",  "/sys", "/opt/cloche", "/usr", "/sbin",  "/shown", "/template",
};

static bool lies_in(const char *path, const char *directory)
{
	size_t len = strlen(directory);

	return strncmp(path, directory, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

bool volume_paths_overlap(const char *a, const char *b)
{
	return lies_in(a, b) || lies_in(b, a);
}

static const char *check_part(const char *part, size_t len)
{
	if (len == 0)
		return "must not have an empty part, or end with '/'";
	if ((len == 1 && part[0] == '.') || (len == 2 && part[0] == '.' && part[1] == '.'))
		return "must not have '.' or '..' as a part";
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)part[i] < ' ' || part[i] == 0x7f)
			return "must not have control characters";
	return NULL;
}

const char *volume_check_path(const char *path)
{
	if (path[0] != '/' || path[1] == '\0')
		return "must be an absolute path below '/'";
	if (strlen(path) >= VOLUME_PATH_SIZE)
		return "must have at most 127 bytes";
	for (const char *part = path; *part == '/';) {
		size_t len = strcspn(++part, "/");
		const char *why = check_part(part, len);

		if (why)
			return why;
		part += len;
	}
	for (size_t i = 0; i < ARRAY_SIZE(taken) && strcmp(path, for_builds) != 0; i++)
		if (volume_paths_overlap(path, taken[i]))
			return "is a place of the system's own";
	return NULL;
}
