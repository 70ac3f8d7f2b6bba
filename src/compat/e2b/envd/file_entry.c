// SPDX-License-Identifier: Apache-2.0
/* The properties of a path in envd's form: the mode of a link is its target's, and permissions are
 * spelt as in Go. */
#include "compat/e2b/envd/envd.h"
#include "compat/e2b/frame/objects.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define DIRECTORY_SIZE UINT64_C(4096)

void envd_entry_done(struct envd_entry *e)
{
	json_decref(e->attributes);
	e->attributes = NULL;
}

bool envd_entry_note(struct envd_entry *e, const struct record *r)
{
	if (r->kind != RECORD_ATTRIBUTE)
		return false;
	if (!e->attributes)
		e->attributes = json_object();
	if (strncmp(r->path, ENVD_ATTRIBUTES, strlen(ENVD_ATTRIBUTES)) == 0)
		(void)json_object_set_new(e->attributes, r->path + strlen(ENVD_ATTRIBUTES),
		                          json_string(r->path2));
	return true;
}

static const char *type_name(uint32_t mode)
{
	if (S_ISREG(mode))
		return "FILE_TYPE_FILE";
	return S_ISDIR(mode) ? "FILE_TYPE_DIRECTORY" : "FILE_TYPE_UNSPECIFIED";
}

static void put_permissions(const struct record *r, bool is_link, struct json_writer *w)
{
	static const char letters[] = "rwxrwxrwx";
	char text[11] = "-";

	text[0] = is_link ? 'L' : S_ISDIR(r->mode) ? 'd' : '-';
	for (unsigned i = 0; i < 9; i++)
		text[i + 1] = is_link || r->mode & (0400U >> i) ? letters[i] : '-';
	json_put_str(w, "permissions", text);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static void put_attributes(struct envd_entry *e, struct json_writer *w)
{
	if (e->attributes && json_object_size(e->attributes) > 0)
		json_put_value(w, "metadata", e->attributes);
	envd_entry_done(e);
}

void envd_put_entry(struct envd_entry *e, const struct record *r, struct json_writer *w,
                    const char *name)
{
	bool is_link = r->path2 && r->path2[0];
	char size[24];

	/* An empty directory on btrfs has size 0; E2B's clients expect another size. */
	(void)snprintf(size, sizeof(size), "%" PRIu64,
	               S_ISDIR(r->mode) && r->size == 0 ? DIRECTORY_SIZE : r->size);
	json_open_object(w, name);
	json_put_str(w, "name", base_name(r->path));
	json_put_str(w, "type", type_name(r->mode));
	json_put_str(w, "path", r->path);
	json_put_str(w, "size", size);
	json_put_u64(w, "mode", r->mode & 0777);
	put_permissions(r, is_link, w);
	json_put_str(w, "owner", r->user ? r->user : "");
	json_put_str(w, "group", r->group ? r->group : "");
	e2b_put_time(w, "modifiedTime", r->mtime_us);
	if (is_link)
		json_put_str(w, "symlinkTarget", r->path2);
	put_attributes(e, w);
	json_close_object(w);
}

void envd_put_file(struct envd_entry *e, const struct record *r, struct json_writer *w)
{
	json_open_object(w, NULL);
	json_put_str(w, "name", base_name(r->path));
	json_put_str(w, "type", "file");
	json_put_str(w, "path", r->path);
	put_attributes(e, w);
	json_close_object(w);
}
