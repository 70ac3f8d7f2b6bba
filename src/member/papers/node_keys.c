// SPDX-License-Identifier: Apache-2.0
#include "member/papers/node_keys.h"

#include "base/fd.h"
#include "member/papers/node_file.h"
#include "member/papers/trouble.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* Names of what is wrapped: no project is called so. */
static const char *const halves[] = {"keys of the brokers", "keys of the members"};

static int read_at(const char *data_dir, void *ret, size_t len, off_t at)
{
	auto_free char *path = node_file_path(data_dir, NODE_KEYS_FILE);
	auto_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return pread(fd, ret, len, at) == (ssize_t)len ? 0 : -EIO;
}

static int save(const char *data_dir, const uint8_t keys[NODE_KEYS], struct err *err)
{
	auto_free char *path = node_file_path(data_dir, NODE_KEYS_FILE);
	int r = fd_replace_file(AT_FDCWD, path, (const char *)keys, NODE_KEYS, 0600,
	                        /* sync= */ true);

	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot write '%s'", path) : 0;
}

bool node_keys_exist(const char *data_dir)
{
	uint8_t last;

	return read_at(data_dir, &last, sizeof(last), NODE_KEYS - 1) == 0;
}

int node_keys_make(const char *data_dir, struct err *err)
{
	uint8_t keys[NODE_KEYS];
	int r;

	random_bytes(keys, sizeof(keys));
	r = save(data_dir, keys, err);
	explicit_bzero(keys, sizeof(keys));
	return r;
}

int node_keys_read_wrapping(const char *data_dir, uint8_t ret[OBJECT_KEY])
{
	return read_at(data_dir, ret, OBJECT_KEY, OBJECT_SEAL_KEY);
}

char *node_keys_wrap(const char *data_dir, const struct invitation *i)
{
	uint8_t keys[NODE_KEYS];
	char texts[2][OBJECT_WRAPPED_TEXT];
	struct digest by;
	char *wrapped = NULL;

	if (read_at(data_dir, keys, sizeof(keys), 0) < 0)
		return NULL;
	invitation_parcel_key(i, &by);
	if (object_key_wrap(by.bytes, i->cluster_id, halves[0], keys, texts[0]) == 0 &&
	    object_key_wrap(by.bytes, i->cluster_id, halves[1], keys + OBJECT_KEY, texts[1]) == 0)
		wrapped = xasprintf("%s %s", texts[0], texts[1]);
	explicit_bzero(keys, sizeof(keys));
	explicit_bzero(&by, sizeof(by));
	return wrapped;
}

int node_keys_take(const char *data_dir, const struct invitation *i, const char *wrapped,
                   struct err *err)
{
	const char *space = strchr(wrapped, ' ');
	auto_free char *first = space ? xstrndup(wrapped, (size_t)(space - wrapped)) : NULL;
	uint8_t keys[NODE_KEYS];
	struct digest by;
	int r;

	invitation_parcel_key(i, &by);
	if (!first || object_key_unwrap(by.bytes, i->cluster_id, halves[0], first, keys) < 0 ||
	    object_key_unwrap(by.bytes, i->cluster_id, halves[1], space + 1, keys + OBJECT_KEY) < 0)
		r = trouble_set(err, TROUBLE_FORGED,
		                "the database has other keys of objects than the inviting node put "
		                "there");
	else
		r = save(data_dir, keys, err);
	explicit_bzero(keys, sizeof(keys));
	explicit_bzero(&by, sizeof(by));
	return r < 0 ? -EBADMSG : 0;
}
