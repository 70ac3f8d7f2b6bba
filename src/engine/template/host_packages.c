// SPDX-License-Identifier: Apache-2.0
#include "engine/template/host_packages.h"

#include "base/fd.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define STATUS_MAX (64 << 20)
#define LIST_SIZE  200

int host_packages_read(struct buf *ret)
{
	int r;

	buf_init(ret, STATUS_MAX);
	r = buf_append_file(ret, "/var/lib/dpkg/status");
	return r == -ENOENT ? 0 : r;
}

/* The fields that are kept; a field's continuation lines are not. */
static const char *const kept[] = {
	"Package",      "Essential",  "Status",  "Priority", "Section",     "Maintainer",
	"Architecture", "Multi-Arch", "Version", "Provides", "Description",
};

static bool is_kept(const char *line)
{
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		if (strncmp(line, kept[i], strlen(kept[i])) == 0 && line[strlen(kept[i])] == ':')
			return true;
	return false;
}

/* A package's name is lower-case letters, digits, "+-."; an architecture likewise. */
static bool is_word(const char *s)
{
	return *s != '\0' && *s != '.' &&
	       s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789+-.")] == '\0';
}

static void take_field(const char *line, size_t len, const char *name, char *ret, size_t size)
{
	size_t name_len = strlen(name);

	if (len > name_len && strncmp(line, name, name_len) == 0)
		(void)snprintf(ret, size, "%.*s", (int)(len - name_len), line + name_len);
}

/* All lists are names of one empty file: a thousand inodes would be most of what a first start
 * costs. dpkg replaces a list by another file and never writes into it. */
static int add_list(int info_fd, const char *name, char first[LIST_SIZE])
{
	auto_fd int fd = -1;

	if (first[0] && (linkat(info_fd, first, info_fd, name, 0) == 0 || errno == EEXIST))
		return 0;
	if (first[0] && errno != EMLINK)
		return -errno;
	fd = openat(info_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	(void)snprintf(first, LIST_SIZE, "%s", name);
	return 0;
}

/* One stanza, up to its empty line. Writes it to out and makes its empty list of files. */
static int write_package(int info_fd, struct buf *out, const char *stanza, size_t stanza_len,
                         char first[LIST_SIZE])
{
	char name[128] = "", arch[32] = "", multi[16] = "", status[64] = "", path[LIST_SIZE];
	size_t start = out->len;
	int r = 0;

	for (const char *p = stanza; r == 0 && p < stanza + stanza_len;) {
		size_t left = (size_t)(stanza + stanza_len - p);
		const char *end = memchr(p, '\n', left);
		size_t len = end ? (size_t)(end - p) : left;

		take_field(p, len, "Package: ", name, sizeof(name));
		take_field(p, len, "Architecture: ", arch, sizeof(arch));
		take_field(p, len, "Multi-Arch: ", multi, sizeof(multi));
		take_field(p, len, "Status: ", status, sizeof(status));
		if (is_kept(p))
			r = buf_append(out, p, MIN(len + 1, left));
		p += len + 1;
	}
	if (r == 0)
		r = buf_append_str(out, "\n");
	if (r < 0)
		return r;
	if (strcmp(status, "install ok installed") != 0 || !is_word(name) || !is_word(arch)) {
		buf_truncate(out, start);
		return 0;
	}
	(void)snprintf(path, sizeof(path), "%s%s%s.list", name,
	               strcmp(multi, "same") == 0 ? ":" : "",
	               strcmp(multi, "same") == 0 ? arch : "");
	return add_list(info_fd, path, first);
}

int host_packages_write(int root_fd, const char *host_status)
{
	auto_fd int info_fd =
		openat(root_fd, "var/lib/dpkg/info", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct buf out = BUF_INIT(STATUS_MAX);
	char first[LIST_SIZE] = "";
	int r = info_fd < 0 ? -errno : 0;

	for (const char *p = host_status; r == 0 && *p != '\0';) {
		const char *end = strstr(p, "\n\n");
		size_t len = end ? (size_t)(end + 1 - p) : strlen(p);

		r = write_package(info_fd, &out, p, len, first);
		p += len;
		p += strspn(p, "\n");
	}
	if (r == 0)
		r = fd_replace_file(root_fd, "var/lib/dpkg/status", buf_str(&out), out.len, 0644,
		                    /* sync= */ false);
	buf_done(&out);
	return r;
}
