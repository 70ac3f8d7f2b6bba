// SPDX-License-Identifier: Apache-2.0
#include "engine/vm/saved.h"

#include "base/fd.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <stddef.h>
#include <sys/stat.h>

#define NAME      "manifest"
#define MAGIC     0x636c766dU /* "clvm" */
#define VERSION   1
#define STATE_MAX (64 << 20)

static int hash(const struct saved *s, struct digest *ret)
{
	return EVP_Digest(s, offsetof(struct saved, self), ret->bytes, NULL, EVP_sha256(), NULL) ==
	                       1
	               ? 0
	               : -ENOSYS;
}

/* *s was zero before it was filled: padding is hashed too. */
int saved_write(int dir_fd, struct saved *s, struct err *err)
{
	int r;

	s->magic = MAGIC;
	s->version = VERSION;
	r = hash(s, &s->self);
	if (r == 0)
		r = fd_replace_file(dir_fd, NAME, s, sizeof(*s), 0400, /* sync= */ false);
	return r < 0 ? err_set(err, r == -ENOSPC ? ERR_HOST_DISK_FULL : ERR_INTERNAL, -r,
	                       "cannot write the memory's manifest")
	             : 0;
}

int saved_damaged(struct err *err)
{
	(void)err_set(err, ERR_CONFLICT, EBADMSG, "the saved memory is damaged");
	return err_hint(err, "its files may still be good: start from it with memory: false");
}

int saved_read(int dir_fd, struct saved *ret, struct err *err)
{
	auto_fd int fd = openat(dir_fd, NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct digest found;
	int r = fd < 0 ? -errno : fd_read_all(fd, ret, sizeof(*ret));

	if (r == 0)
		r = hash(ret, &found);
	if (r < 0)
		return err_set(err, ERR_CONFLICT, -r, "cannot read the saved memory");
	if (ret->magic != MAGIC || ret->version != VERSION || !digest_equal(&found, &ret->self))
		return saved_damaged(err);
	return 0;
}

int saved_hash(int fd, struct digest *ret)
{
	struct stat st;
	auto_free char *data = NULL;

	if (fstat(fd, &st) < 0 || st.st_size > STATE_MAX)
		return -EFBIG;
	data = xcalloc(1, (size_t)st.st_size + 1);
	if (pread(fd, data, (size_t)st.st_size, 0) != st.st_size)
		return -EIO;
	return EVP_Digest(data, (size_t)st.st_size, ret->bytes, NULL, EVP_sha256(), NULL) == 1
	               ? 0
	               : -EIO;
}
