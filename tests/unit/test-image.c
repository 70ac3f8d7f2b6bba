// SPDX-License-Identifier: Apache-2.0
/* Sandboxes whose template is an image: a busybox and a few files, made by hand. */
#include "jail-rig.h"

#include "engine/guest/guest.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *hex_of(const struct digest *digest)
{
	static char hex[DIGEST_HEX];

	digest_to_hex(digest, hex);
	return hex;
}

/* What is on disk under its name. */
static const char *image_hash(const struct digest *digest)
{
	auto_free char *command = xasprintf("sha256sum < %s/templates/%s/image.erofs | head -c 64",
	                                    jail_rig.data, hex_of(digest));

	return jail_rig_host_says(command);
}

static struct guest *start_on(const struct digest *image, uint32_t slot)
{
	struct guest_spec spec = jail_rig_spec(slot);

	spec.image = *image;
	return jail_rig_start(&spec);
}

TEST_FORKED(a_guest_of_an_image_sees_the_image_and_the_fittings_and_nothing_of_the_host, 60)
{
	struct digest image;
	struct guest *g;

	jail_rig_set_up(true);
	image = jail_rig_image("true");
	g = start_on(&image, 1);
	CHECK_STR(jail_rig_say(g, "user cat /etc/mark /etc/hostname; hostname"),
	          "image\nbell\nbell");
	CHECK_STR(jail_rig_say(g, "user cat /data/own; stat -c '%u %a' /data"), "secret\n1000 700");
	/* Ours lies over the image's own. */
	CHECK_STR(jail_rig_say(g, "user grep -c 127.0.0.1 /etc/resolv.conf; ls /opt/cloche"),
	          "1\nbin\nkernels");
	CHECK_STR(jail_rig_say(g, "user ls /; ls /usr /usr/local/bin"),
	          "bin\ndata\ndev\netc\nhome\nopt\nproc\nrun\nsys\ntmp\nusr\n"
	          "/usr:\nlocal\n\n/usr/local/bin:\nsudo");
	CHECK(strstr(jail_rig_say(g, "root cat /proc/self/mountinfo"), "images") == NULL);
	CHECK(strstr(jail_rig_say(g, "root cat /proc/self/mountinfo"), jail_rig.top) == NULL);
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(what_one_guest_changes_no_other_sees_and_the_image_stays, 60)
{
	struct digest image;
	struct guest *a, *b;

	jail_rig_set_up(true);
	image = jail_rig_image("true");
	a = start_on(&image, 1);
	b = start_on(&image, 2);
	CHECK_STR(jail_rig_say(a,
	                       "root echo changed > /etc/mark; rm /data/own; touch /new; ls /data "
	                       "/etc/mark /new"),
	          "/etc/mark\n/new\n\n/data:");
	CHECK_STR(jail_rig_say(b, "user cat /etc/mark /data/own; ls /new 2>/dev/null"),
	          "image\nsecret");
	jail_rig_end(a);
	jail_rig_end(b);
	CHECK_STR(image_hash(&image), hex_of(&image));
	jail_rig_tear_down();
}

TEST_FORKED(set_uid_files_and_devices_of_an_image_have_no_power, 60)
{
	struct digest image;
	struct guest *g;

	jail_rig_set_up(true);
	image = jail_rig_image("cp tree/bin/busybox tree/bin/su && chmod 4755 tree/bin/su && rm "
	                       "tree/bin/id && ln tree/bin/su tree/bin/id && "
	                       "mknod -m 666 tree/data/kmem c 1 1 && chmod 755 tree/data");
	g = start_on(&image, 1);
	CHECK_STR(jail_rig_say(g, "user stat -c %a /bin/id; id -u"), "4755\n1000");
	CHECK(strstr(jail_rig_say(g, "root cat /data/kmem"), "ermission denied") != NULL);
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(an_image_that_is_not_there_is_named_and_nothing_is_left, 60)
{
	struct guest_spec spec;
	struct guest *g;

	jail_rig_set_up(true);
	spec = jail_rig_spec(1);
	spec.image.bytes[0] = 0xab;
	CHECK(jail_engine.start(jail_rig.host, &spec, jail_rig_on_started, jail_rig_on_ended, NULL,
	                        &g, &jail_rig.err) < 0);
	CHECK_INT(jail_rig.err.code, ERR_NOT_FOUND);
	CHECK_STR(jail_rig.err.message,
	          "there is no image ab0000000000…: No such file or directory");
	jail_rig_tear_down();
}

static const char *count_mounts(void)
{
	auto_free char *command =
		xasprintf("grep -c %s/images/ /proc/self/mountinfo", jail_rig.run);

	return jail_rig_host_says(command);
}

/* As a killed broker's are closed; each would keep the loop device of a mount. */
static void close_fds_of_images(void)
{
	auto_free char *at = xasprintf("%s/images/", jail_rig.run);
	DIR *fds = opendir("/proc/self/fd");
	const struct dirent *e;

	CHECK(fds);
	while ((e = readdir(fds))) {
		char to[PATH_MAX] = "";

		if (readlinkat(dirfd(fds), e->d_name, to, sizeof(to) - 1) > 0 &&
		    strncmp(to, at, strlen(at)) == 0)
			(void)close((int)strtol(e->d_name, NULL, 10));
	}
	(void)closedir(fds);
}

TEST_FORKED(the_next_broker_takes_over_guests_and_takes_down_the_mounts, 60)
{
	struct guest_spec spec, seen;
	struct digest image;
	struct guest *g;

	jail_rig_set_up(true);
	image = jail_rig_image("true");
	spec = jail_rig_spec(3);
	spec.image = image;
	g = jail_rig_start(&spec);
	CHECK_STR(count_mounts(), "1\n");
	/* As if it had been killed: what it mounted is still there. */
	list_init(&jail_rig.host->images.mounted);
	close_fds_of_images();
	jail_engine.leave(jail_rig.host);
	CHECK_STR(count_mounts(), "1\n");
	jail_rig_probe();
	CHECK_STR(count_mounts(), "0\n");
	CHECK_INT(jail_engine.adopt(jail_rig.host, spec.id, jail_rig_on_ended, NULL, &g, &seen,
	                            &jail_rig.err),
	          0);
	CHECK(digest_equal(&seen.image, &image));
	CHECK_STR(jail_rig_say(g, "user cat /etc/mark"), "image");
	jail_rig_end(g);
	jail_rig_tear_down();
}

static const char *count_loops(void)
{
	auto_free char *command = xasprintf(
		"cat /sys/block/loop*/loop/backing_file | grep -c %s.*image.erofs", jail_rig.data);

	return jail_rig_host_says(command);
}

TEST_FORKED(a_kernel_without_file_mounts_uses_a_loop_device_that_goes_with_the_guest, 60)
{
	struct digest image;
	struct guest *a, *b;

	jail_rig_set_up(true);
	image = jail_rig_image("true");
	jail_rig.host->images.needs_loop = true;
	a = start_on(&image, 1);
	images_drop(&jail_rig.host->images, &image);
	b = start_on(&image, 2);
	CHECK_STR(jail_rig_say(a, "user cat /etc/mark"), "image");
	CHECK_STR(jail_rig_say(b, "user cat /etc/mark"), "image");
	CHECK_STR(count_loops(), "1\n"); /* one for both: the file was found attached */
	jail_rig_end(a);
	jail_rig_end(b);
	jail_rig_tear_down();
}

TEST_FORKED(a_kept_layer_is_started_over_its_image, 60)
{
	struct guest_spec spec;
	struct guest *g;

	jail_rig_set_up(true);
	spec = jail_rig_spec(4);
	spec.image = jail_rig_image("true");
	spec.keeper = 77;
	g = jail_rig_start(&spec);
	CHECK_STR(jail_rig_say(g, "root echo kept > /etc/kept; rm /etc/mark"), "");
	jail_rig_end(g);
	spec.is_resumed = 1;
	g = jail_rig_start(&spec);
	CHECK_STR(jail_rig_say(g, "user cat /etc/kept; ls /etc/mark 2>&1"),
	          "kept\nls: /etc/mark: No such file or directory");
	jail_rig_end(g);
	jail_rig_tear_down();
}
