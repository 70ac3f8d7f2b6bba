// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Archives for tests, honest and hostile: header fields as given, checksum made right. */
#include "base/buf.h"
#include "tar/format.h"

#include <stdio.h>
#include <string.h>

struct made {
	const char *name;
	char type;
	const char *target;
	const char *data;
	const char *mode; /* octal; NULL = 644 */
	const char *size; /* the field's text when it shall lie; else from data */
	const char *magic;
};

static inline void made_seal(struct tar_head *head)
{
	const unsigned char *bytes = (const unsigned char *)head;
	unsigned sum = 0;

	memset(head->checksum, ' ', sizeof(head->checksum));
	for (size_t i = 0; i < sizeof(*head); i++)
		sum += bytes[i];
	(void)snprintf(head->checksum, sizeof(head->checksum), "%06o", sum);
}

static inline void made_add(struct buf *out, const struct made *m)
{
	static const char zeros[512];
	struct tar_head head = {0};
	size_t len = m->data ? strlen(m->data) : 0;
	int r = 0;

	memcpy(head.name, m->name, strnlen(m->name, sizeof(head.name)));
	if (m->target)
		memcpy(head.target, m->target, strnlen(m->target, sizeof(head.target)));
	(void)snprintf(head.mode, sizeof(head.mode), "%s", m->mode ? m->mode : "0000644");
	(void)snprintf(head.size, sizeof(head.size), "%011o", (unsigned)len & 07777777);
	if (m->size)
		memcpy(head.size, m->size, sizeof(head.size));
	memcpy(head.magic, m->magic ? m->magic : "ustar", 6);
	head.type = m->type;
	made_seal(&head);
	r |= buf_append(out, &head, sizeof(head));
	r |= buf_append(out, m->data, len);
	r |= buf_append(out, zeros, -len % 512);
	if (r < 0)
		abort();
}

static inline void made_end(struct buf *out)
{
	static const char zeros[1024];

	if (buf_append(out, zeros, sizeof(zeros)) < 0)
		abort();
}
