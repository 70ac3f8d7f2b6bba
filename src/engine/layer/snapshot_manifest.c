// SPDX-License-Identifier: Apache-2.0
#include "engine/layer/snapshot_manifest.h"

#include "base/fd.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <stddef.h>
#include <string.h>

#define NAME    "manifest"
#define MAGIC   0x636c736eU /* "clsn" */
#define VERSION 2

static int hash(const struct snapshot_manifest *m, struct digest *ret)
{
	return EVP_Digest(m, offsetof(struct snapshot_manifest, hash), ret->bytes, NULL,
	                  EVP_sha256(), NULL) == 1
	               ? 0
	               : -ENOSYS;
}

int snapshot_manifest_write(int dir_fd, const struct snapshot_info *info, bool is_synced,
                            struct err *err)
{
	struct snapshot_manifest m;
	int r;

	memset(&m, 0, sizeof(m)); /* padding is hashed too */
	m.magic = MAGIC;
	m.version = VERSION;
	memcpy(&m.info, info, sizeof(m.info));
	r = hash(&m, &m.hash);
	if (r == 0)
		r = fd_replace_file(dir_fd, NAME, &m, sizeof(m), 0400, is_synced);
	return r < 0 ? err_set(err, r == -ENOSPC ? ERR_HOST_DISK_FULL : ERR_INTERNAL, -r,
	                       "cannot write the snapshot's manifest")
	             : 0;
}

static bool ends(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

int snapshot_manifest_read(int dir_fd, const char *id, struct snapshot_info *ret)
{
	auto_fd int fd = openat(dir_fd, NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct digest found;
	struct snapshot_manifest m;
	int r = fd < 0 ? -errno : fd_read_all(fd, &m, sizeof(m));

	if (r < 0)
		return r == -ENODATA || r == -EPIPE ? -EBADMSG : r;
	if (m.magic == MAGIC && m.version != VERSION)
		return -EPROTONOSUPPORT;
	r = hash(&m, &found);
	if (r < 0)
		return r;
	if (m.magic != MAGIC || !digest_equal(&found, &m.hash) ||
	    !ends(m.info.id, sizeof(m.info.id)) || !ends(m.info.source, sizeof(m.info.source)) ||
	    strcmp(m.info.id, id) != 0)
		return -EBADMSG;
	*ret = m.info;
	return 0;
}
