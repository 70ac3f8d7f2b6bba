// SPDX-License-Identifier: Apache-2.0
#include "engine/template/image_build_finish.h"

#include "base/fd.h"
#include "engine/erofs/erofs_file.h"
#include "engine/layer/image.h"
#include "engine/linux/syscalls.h"
#include "engine/template/image_build_child.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define CHUNK (1 << 20)

static int hash_all(int fd, EVP_MD_CTX *ctx, struct image_build_result *ret, struct err *err)
{
	static unsigned char chunk[CHUNK];
	ssize_t n;

	while ((n = read(fd, chunk, sizeof(chunk))) > 0) {
		ret->bytes += (uint64_t)n;
		if (EVP_DigestUpdate(ctx, chunk, (size_t)n) != 1)
			return err_set(err, ERR_INTERNAL, 0, "cannot hash the image");
	}
	if (n < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot read the image");
	if (EVP_DigestFinal_ex(ctx, ret->image.bytes, NULL) != 1)
		return err_set(err, ERR_INTERNAL, 0, "cannot hash the image");
	return 0;
}

static bool may_need(const struct image_build_finish *f, const struct digest *base)
{
	for (size_t i = 0; i < f->n_may_need; i++)
		if (digest_equal(&f->may_need[i], base))
			return true;
	return false;
}

static int check_bases(int fd, const struct image_build_finish *f, struct image_build_result *ret,
                       struct err *err)
{
	struct erofs_bases bases;
	int r = erofs_read_bases(fd, &bases);

	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "the image is damaged");
	for (size_t i = 0; i < bases.n; i++) {
		if (!may_need(f, &bases.list[i].digest))
			return err_set(err, ERR_INTERNAL, EPERM,
			               "the image needs one that it was not made over");
	}
	image_tell_bases(&bases, &ret->bases);
	return 0;
}

/* The checksum of mkfs.erofs is then wrong, so it is switched off; we have a better one. */
static int mark_whole(int fd, struct err *err)
{
	struct erofs_super super;

	if (pread(fd, &super, sizeof(super), EROFS_SUPER_AT) != (ssize_t)sizeof(super))
		return err_set(err, ERR_INTERNAL, errno, "cannot read the image");
	super.feature_compat &= EROFS_COMPAT_MTIME;
	super.checksum = 0;
	memset(super.label, 0, sizeof(super.label));
	memcpy(super.label, EROFS_WHOLE, sizeof(EROFS_WHOLE));
	if (pwrite(fd, &super, sizeof(super), EROFS_SUPER_AT) != (ssize_t)sizeof(super))
		return err_set(err, ERR_INTERNAL, errno, "cannot mark the image");
	return 0;
}

/* A lease for reading is refused as long as anybody has it open for writing; and nobody can open it
 * by a name. So what is hashed now is what it will have. */
static int check_unwritten(int fd, struct err *err)
{
	if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0)
		return 0;
	return err_set(err, ERR_CONFLICT, errno, "the image is still open for writing");
}

static int check_what(const struct image_build_finish *f, const struct image_build_result *r,
                      struct err *err)
{
	if (r->bytes == f->bytes && digest_equal(&r->image, f->is))
		return 0;
	(void)err_set(err, ERR_CONFLICT, 0, "this is not the image that was sealed");
	return err_hint(err, "try again; if it stays so, the store of objects has other bytes than "
	                     "were put there: build the template anew");
}

/* They come before it. */
static int check_bases_here(const struct image_build_finish *f,
                            const struct image_build_result *result, struct err *err)
{
	for (uint32_t i = 0; i < result->bases.n; i++) {
		char name[IMAGE_NAME_SIZE], hex[DIGEST_HEX];

		image_kept_name(&result->bases.list[i].digest, name);
		digest_to_hex(&result->bases.list[i].digest, hex);
		if (faccessat(f->templates_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
		    faccessat(f->templates_fd, hex, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			return err_set(err, ERR_CONFLICT, 0, "an image that it needs is not here");
	}
	return 0;
}

static int read_bases(int fd, struct image_build_result *ret, struct err *err)
{
	struct erofs_bases bases;
	int r = erofs_read_bases(fd, &bases);

	if (r < 0)
		return err_set(err, ERR_CONFLICT, -r, "the image is damaged");
	image_tell_bases(&bases, &ret->bases);
	return 0;
}

static int hash_image(int dir_fd, const struct image_build_finish *f,
                      struct image_build_result *ret, struct err *err)
{
	auto_fd int fd = openat(dir_fd, IMAGE_BUILD_FILE,
	                        (f->is ? O_RDONLY : O_RDWR) | O_NOFOLLOW | O_CLOEXEC);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		r = err_set(err, ERR_INTERNAL, errno, "there is no image");
	else if (!S_ISREG(st.st_mode) || st.st_nlink != 1)
		r = err_set(err, ERR_INTERNAL, 0, "the image is no plain file");
	else if (!ctx || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1)
		r = err_set(err, ERR_INTERNAL, 0, "there is no SHA-256");
	else
		r = f->is ? check_unwritten(fd, err) : check_bases(fd, f, ret, err);
	if (r == 0 && f->is_whole)
		r = mark_whole(fd, err);
	if (r == 0)
		r = hash_all(fd, ctx, ret, err);
	if (r == 0 && f->is)
		r = check_what(f, ret, err);
	if (r == 0 && f->is) /* nothing of it was read before that */
		r = read_bases(fd, ret, err);
	if (r == 0 && f->is)
		r = check_bases_here(f, ret, err);
	EVP_MD_CTX_free(ctx);
	if (r == 0 && (fchown(fd, 0, 0) < 0 || fchmod(fd, 0400) < 0 || fsync(fd) < 0))
		r = err_set(err, errno == ENOSPC ? ERR_HOST_DISK_FULL : ERR_INTERNAL, errno,
		            "cannot bring the image to disk");
	return r;
}

static int finish(const struct image_build_finish *f, struct image_build_result *ret,
                  struct err *err)
{
	auto_fd int fd = openat(f->templates_fd, f->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char name[IMAGE_NAME_SIZE];
	int r = fd < 0 ? err_set(err, ERR_INTERNAL, errno, "the image's directory is gone")
	               : hash_image(fd, f, ret, err);

	if (r == 0)
		r = image_write_keeper(fd, f->keeper, err);
	if (r < 0)
		return r;
	if (f->is_base)
		image_kept_name(&ret->image, name);
	else
		digest_to_hex(&ret->image, name);
	if (fsync(fd) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot bring the image to disk");
	if (renameat(f->templates_fd, f->name, f->templates_fd, name) < 0 && errno != EEXIST &&
	    errno != ENOTEMPTY) /* then it was here before, which is as good */
		return err_set(err, ERR_INTERNAL, errno, "cannot name the image");
	if (fsync(f->templates_fd) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot bring the image's name to disk");
	return 0;
}

int image_build_finish_start(const struct image_build_finish *f, int *ret_pidfd, int *ret_fd,
                             struct err *err)
{
	struct clone_args args = {.flags = CLONE_PIDFD,
	                          .exit_signal = SIGCHLD,
	                          .pidfd = (uint64_t)(uintptr_t)ret_pidfd};
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a pipe");
	pid = sys_clone3(&args);
	if (pid == 0) {
		struct image_build_finished end = {0};

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)signal(SIGIO, SIG_IGN); /* of a lease */
		(void)!finish(f, &end.result, &end.err);
		_exit(fd_write_all(fds[1], &end, sizeof(end)) == 0 ? 0 : 1);
	}
	(void)close(fds[1]);
	if (pid < 0) {
		(void)close(fds[0]);
		return err_set(err, ERR_CAPACITY, errno, "cannot make a child");
	}
	*ret_fd = fds[0];
	return 0;
}
