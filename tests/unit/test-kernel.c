// SPDX-License-Identifier: Apache-2.0
/* The guest kernel's image, as the vm engine finds it. */
#include "engine/vm/boot/kernel.h"
#include "jail-rig.h"

#include "engine/guest/guest.h"

#include <fcntl.h>
#include <sys/stat.h>

static int open_data(void)
{
	int fd = open(jail_rig.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

TEST_FORKED(the_guest_kernel_is_the_image_that_was_named_last, 60)
{
	struct digest first, second, got;
	struct err err;
	auto_fd int data_fd = -1;

	jail_rig_set_up(true);
	data_fd = open_data();
	first = jail_rig_image("mkdir tree/modules && echo one > tree/vmlinuz");
	second = jail_rig_image("mkdir tree/modules && echo two > tree/vmlinuz");
	for (int i = 0; i < 2; i++) {
		const struct digest *wanted = i == 0 ? &first : &second;
		auto_fd int fd = -1;

		CHECK_INT(kernel_set(&jail_rig.host->images, data_fd, wanted, &err), 0);
		CHECK_INT(kernel_open(&jail_rig.host->images, data_fd, &fd, &got, &err), 0);
		CHECK(digest_equal(&got, wanted));
		CHECK_INT(faccessat(fd, "vmlinuz", F_OK, 0), 0);
	}
	jail_rig_tear_down();
}

TEST_FORKED(an_image_without_a_kernel_is_refused_and_the_one_before_stays, 60)
{
	struct digest kernel, other, got, none = {.bytes = {1}};
	struct err err;
	auto_fd int data_fd = -1, fd = -1;

	jail_rig_set_up(true);
	data_fd = open_data();
	other = jail_rig_image("true");
	kernel = jail_rig_image("mkdir tree/modules && touch tree/vmlinuz");
	CHECK_INT(kernel_set(&jail_rig.host->images, data_fd, &kernel, &err), 0);
	CHECK_INT(kernel_set(&jail_rig.host->images, data_fd, &other, &err), -ENOENT);
	CHECK_STR(err.message, "the image has no 'vmlinuz': No such file or directory");
	CHECK(kernel_set(&jail_rig.host->images, data_fd, &none, &err) < 0);
	CHECK_INT(kernel_open(&jail_rig.host->images, data_fd, &fd, &got, &err), 0);
	CHECK(digest_equal(&got, &kernel));
	close_fd(&fd); /* it keeps a loop device where a kernel mounts no files */
	jail_rig_tear_down();
}

TEST_FORKED(without_a_guest_kernel_it_is_told_how_to_get_one, 60)
{
	struct digest got;
	struct err err;
	auto_fd int data_fd = -1;
	int fd;

	jail_rig_set_up(true);
	data_fd = open_data();
	CHECK_INT(kernel_open(&jail_rig.host->images, data_fd, &fd, &got, &err), -ENOENT);
	CHECK_STR(err.hint, "build it: cloche template build kernel");
	jail_rig_tear_down();
}

TEST_FORKED(a_directory_of_the_operators_own_serves_as_guest_kernel_and_stays, 60)
{
	struct digest got, image;
	struct err err;
	auto_fd int data_fd = -1, fd = -1;

	jail_rig_set_up(true);
	data_fd = open_data();
	CHECK_INT(mkdirat(data_fd, "kernels", 0755), 0);
	CHECK_INT(mkdirat(data_fd, "kernels/current", 0755), 0);
	CHECK_INT(kernel_open(&jail_rig.host->images, data_fd, &fd, &got, &err), 0);
	CHECK(digest_is_zero(&got));
	image = jail_rig_image("mkdir tree/modules && touch tree/vmlinuz");
	CHECK_INT(kernel_set(&jail_rig.host->images, data_fd, &image, &err), -EISDIR);
	CHECK_STR(err.message, "kernels/current is the operator's own, and stays: Is a directory");
	jail_rig_tear_down();
}
