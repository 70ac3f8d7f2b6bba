// SPDX-License-Identifier: Apache-2.0
#include "engine/vm/boot/kernel.h"

#include "engine/guest/guest.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define DIR     "kernels"
#define CURRENT DIR "/current"
#define NEXT    DIR "/next"

static const char *const needed[] = {"vmlinuz", "modules"};

static int say_missing(int errnum, struct err *err)
{
	const int r = err_set(err, ERR_UNAVAILABLE, errnum, "there is no guest kernel yet");

	(void)err_hint(err, "build it: cloche template build kernel");
	return r;
}

static int open_image(struct images *im, const char *name, int *ret_fd, struct digest *ret,
                      struct err *err)
{
	struct digest digest;
	int mounted, fd, r;

	if (digest_parse(name, &digest) < 0)
		return err_set(err, ERR_INTERNAL, EINVAL, CURRENT " leads to '%.80s'", name);
	r = images_mount(im, &digest, &mounted, err);
	if (r == -ENOENT) /* its template was removed */
		return say_missing(-r, err);
	if (r < 0)
		return err_prefix(err, "the guest kernel");
	fd = openat(mounted, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open the guest kernel's image");
	*ret_fd = fd;
	*ret = digest;
	return 0;
}

int kernel_open(struct images *im, int data_fd, int *ret_fd, struct digest *ret_digest,
                struct err *err)
{
	char target[128];
	ssize_t n = readlinkat(data_fd, CURRENT, target, sizeof(target) - 1);
	int fd;

	if (n >= 0) {
		target[n] = '\0';
		return open_image(im, target, ret_fd, ret_digest, err);
	}
	fd = openat(data_fd, CURRENT, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return say_missing(errno, err);
	*ret_fd = fd;
	*ret_digest = (struct digest){0};
	return 0;
}

static int replace_link(int data_fd, const char *target)
{
	if (mkdirat(data_fd, DIR, 0755) < 0 && errno != EEXIST)
		return -errno;
	if (unlinkat(data_fd, NEXT, 0) < 0 && errno != ENOENT)
		return -errno;
	if (symlinkat(target, data_fd, NEXT) < 0 || renameat(data_fd, NEXT, data_fd, CURRENT) < 0)
		return -errno;
	return 0;
}

int kernel_set(struct images *im, int data_fd, const struct digest *digest, struct err *err)
{
	char name[DIGEST_HEX];
	struct digest found;
	auto_fd int fd = -1;
	int r;

	digest_to_hex(digest, name);
	r = open_image(im, name, &fd, &found, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (faccessat(fd, needed[i], F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			return err_set(err, ERR_INVALID_FIELD, errno, "the image has no '%s'",
			               needed[i]);
	r = replace_link(data_fd, name);
	if (r == -EISDIR)
		return err_set(err, ERR_CONFLICT, -r, CURRENT " is the operator's own, and stays");
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot name the guest kernel") : 0;
}

int kernel_choose(struct guest_host *host, const struct digest *digest, struct err *err)
{
	auto_fd int data_fd = open(host->data_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (data_fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open the data directory");
	return kernel_set(&host->images, data_fd, digest, err);
}
