// SPDX-License-Identifier: Apache-2.0
#include "tar/tar.h"

#include "tar/format.h"

#include <stdio.h>
#include <string.h>

#define OCTAL_7  07777777ULL     /* most that mode, uid and gid fields hold */
#define OCTAL_11 077777777777ULL /* size and mtime: 8 GiB */
/* Most bytes of records in one extended header. Its block, its padding and the entry's block come
 * on top. */
#define PAX_MAX (TAR_HEAD_MAX - 3 * TAR_BLOCK)

size_t tar_padding(uint64_t size)
{
	return (size_t)(-size % TAR_BLOCK);
}

int tar_put_end(struct buf *out)
{
	static const char zeros[2 * TAR_BLOCK];

	return buf_append(out, zeros, sizeof(zeros));
}

static void put_octal(char *field, size_t size, uint64_t v)
{
	(void)snprintf(field, size, "%0*llo", (int)size - 1, (unsigned long long)v);
}

static void seal(struct tar_head *head)
{
	const unsigned char *bytes = (const unsigned char *)head;
	unsigned sum = 0;

	memset(head->checksum, ' ', sizeof(head->checksum));
	for (size_t i = 0; i < sizeof(*head); i++)
		sum += bytes[i];
	(void)snprintf(head->checksum, sizeof(head->checksum), "%06o", sum & 0777777);
	head->checksum[7] = ' ';
}

static void begin(struct tar_head *head, char type, uint32_t mode, uint64_t size)
{
	memset(head, 0, sizeof(*head));
	memcpy(head->magic, "ustar", 6);
	memcpy(head->version, "00", 2);
	head->type = type;
	put_octal(head->mode, sizeof(head->mode), mode & 07777);
	put_octal(head->size, sizeof(head->size), size);
}

/* The name field alone, or split at a slash into prefix and name. */
static bool put_path(struct tar_head *head, const char *path)
{
	size_t len = strlen(path);

	if (len <= sizeof(head->name)) {
		memcpy(head->name, path, len);
		return true;
	}
	for (size_t at = len - 1; at > 0; at--) {
		if (path[at] != '/' || len - at - 1 == 0)
			continue;
		if (len - at - 1 > sizeof(head->name))
			return false;
		if (at > sizeof(head->prefix))
			continue;
		memcpy(head->prefix, path, at);
		memcpy(head->name, path + at + 1, len - at - 1);
		return true;
	}
	return false;
}

/* A pax record counts its own length, digits included. */
static int put_record(struct buf *pax, const char *key, const char *value)
{
	size_t rest = strlen(key) + strlen(value) + 3, len = rest, before;

	do {
		before = len;
		len = rest + (size_t)snprintf(NULL, 0, "%zu", before);
	} while (len != before);
	return buf_printf(pax, "%zu %s=%s\n", len, key, value);
}

static int put_number(struct buf *pax, const char *key, uint64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return put_record(pax, key, text);
}

static int put_time(struct buf *pax, uint64_t s, uint32_t ns)
{
	char text[40];

	(void)snprintf(text, sizeof(text), "%llu.%09u", (unsigned long long)s, ns);
	return put_record(pax, "mtime", text);
}

static int put_pax(struct buf *out, const struct buf *pax)
{
	static const char zeros[TAR_BLOCK];
	struct tar_head head;
	int r;

	begin(&head, 'x', 0644, pax->len);
	memcpy(head.name, "pax", 3);
	put_octal(head.uid, sizeof(head.uid), 0);
	put_octal(head.gid, sizeof(head.gid), 0);
	put_octal(head.mtime, sizeof(head.mtime), 0);
	seal(&head);
	r = buf_append(out, &head, sizeof(head));
	if (r >= 0)
		r = buf_append(out, pax->data, pax->len);
	return r < 0 ? r : buf_append(out, zeros, tar_padding(pax->len));
}

int tar_put_head(struct buf *out, const struct tar_entry *e)
{
	static const char types[] = {
		[TAR_FILE] = '0', [TAR_DIR] = '5', [TAR_SYMLINK] = '2', [TAR_HARDLINK] = '1'};
	auto_call(buf_done) struct buf pax = BUF_INIT(PAX_MAX);
	const char *target = e->target ? e->target : "";
	uint64_t size = e->kind == TAR_FILE ? e->size : 0;
	struct tar_head head;
	int r = 0;

	begin(&head, types[e->kind], e->mode, MIN(size, OCTAL_11));
	put_octal(head.uid, sizeof(head.uid), MIN((uint64_t)e->uid, OCTAL_7));
	put_octal(head.gid, sizeof(head.gid), MIN((uint64_t)e->gid, OCTAL_7));
	put_octal(head.mtime, sizeof(head.mtime), MIN(e->mtime_s, OCTAL_11));
	if (!put_path(&head, e->path)) {
		memcpy(head.name, e->path, sizeof(head.name));
		r = put_record(&pax, "path", e->path);
	}
	if (r >= 0 && strlen(target) > sizeof(head.target))
		r = put_record(&pax, "linkpath", target);
	memcpy(head.target, target, MIN(strlen(target), sizeof(head.target)));
	if (r >= 0 && size > OCTAL_11)
		r = put_number(&pax, "size", size);
	if (r >= 0 && e->uid > OCTAL_7)
		r = put_number(&pax, "uid", e->uid);
	if (r >= 0 && e->gid > OCTAL_7)
		r = put_number(&pax, "gid", e->gid);
	if (r >= 0 && (e->mtime_ns > 0 || e->mtime_s > OCTAL_11))
		r = put_time(&pax, e->mtime_s, e->mtime_ns);
	if (r >= 0 && pax.len > 0)
		r = put_pax(out, &pax);
	if (r < 0)
		return r;
	seal(&head);
	return buf_append(out, &head, sizeof(head));
}
