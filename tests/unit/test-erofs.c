// SPDX-License-Identifier: Apache-2.0
/* Images with bases, made of trees that the real mkfs.erofs packs, and read by the real kernel. */
#include "test.h"

#include "base/fd.h"
#include "engine/erofs/erofs_write.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MKFS                                                                                       \
	"SOURCE_DATE_EPOCH=1700000000 mkfs.erofs --quiet -d1 -x-1 -zlz4 -C32768 "                  \
	"-Uc10c4e00-0000-4000-8000-000000000000 --preserve-mtime "

static char top[] = "/tmp/cloche-erofs-XXXXXX";

static int shell(const char *script)
{
	auto_free char *command = xasprintf("cd %s && set -e; %s", top, script);
	const char *const argv[] = {"/bin/sh", "-c", command, NULL};
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		(void)execv(argv[0], unconst(argv));
		_exit(127);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	return status;
}

static bool leave_out_tmp(const char *path)
{
	return strncmp(path, "tmp/", 4) == 0;
}

static int open_in(const char *name, int flags)
{
	auto_free char *path = xasprintf("%s/%s", top, name);

	return open(path, flags | O_CLOEXEC);
}

/* Packs the tree `upper`, and makes it an image over those in parts. Returns what the two calls
 * return, and how many bases it has in *ret_bases. */
static int make_over(const char *upper, const char *image, const char *const *parts, size_t n,
                     bool is_whole, size_t *ret_bases)
{
	auto_free char *script = xasprintf("rm -f %s; " MKFS "%s %s", image, image, upper);
	struct erofs_part list[EROFS_BASES_MAX + 1] = {0};
	struct erofs_bases bases = {.n = 0};
	struct erofs_file base, added;
	struct erofs_tree tree;
	int fd, upper_fd = open_in(upper, O_RDONLY | O_DIRECTORY), r;

	CHECK_INT(shell(script), 0);
	fd = open_in(image, O_RDWR);
	for (size_t i = 0; i < n; i++) {
		list[i].fd = open_in(parts[i], O_RDONLY);
		memset(list[i].digest.bytes, (int)(i + 1), DIGEST_LEN);
		CHECK_INT(erofs_is_whole(list[i].fd, &list[i].is_whole), 0);
	}
	r = erofs_open(list[0].fd, &base);
	CHECK_INT(r, 0);
	CHECK_INT(erofs_open(fd, &added), 0);
	r = erofs_merge(&(struct erofs_merge){.base = &base,
	                                      .added = &added,
	                                      .upper_fd = upper_fd,
	                                      .is_left_out = leave_out_tmp},
	                &tree);
	if (r == 0) {
		r = erofs_write(&(struct erofs_output){.fd = fd,
		                                       .base = &base,
		                                       .added = &added,
		                                       .parts = list,
		                                       .is_whole = is_whole},
		                &tree);
		erofs_tree_free(&tree);
	}
	if (r == 0)
		CHECK_INT(erofs_read_bases(fd, &bases), 0);
	*ret_bases = bases.n;
	erofs_close(&base);
	erofs_close(&added);
	for (size_t i = 0; i < n; i++)
		(void)close(list[i].fd);
	(void)close(fd);
	(void)close(upper_fd);
	return r;
}

/* Through loop devices, as old kernels want it: each of them takes it so. */
static int mount_over(const char *image, const char *bases, const char *place)
{
	auto_free char *script =
		xasprintf("o=ro; for b in %s; do o=$o,device=$(losetup -r -f --show $b); done; "
	                  "mount -t erofs -o $o $(losetup -r -f --show %s) %s",
	                  bases, image, place);

	return shell(script);
}

static void set_up(void)
{
	CHECK(mkdtemp(top) != NULL);
	if (geteuid() != 0 || shell("which mkfs.erofs losetup > /dev/null") != 0)
		SKIP("needs root, erofs-utils and losetup");
	CHECK_INT(shell("mkdir m1 m2 m3 upper work merged upper2 b b/a b/a/deep b/tmp b/many; "
	                "echo secret > b/tmp/s; seq 1 90000 > b/a/big; ln b/a/big b/a/big2; "
	                "head -c 70000 /dev/urandom > b/random; cp b/random b/a/r2; "
	                "ln -s nowhere b/a/link; echo 1 > b/a/deep/f; : > b/empty; mkfifo b/pipe; "
	                "for i in $(seq 1 900); do echo $i > b/many/name-$i; done; "
	                "head -c 4090 /dev/urandom > b/nearly; " MKFS "base.erofs b"),
	          0);
	if (shell("mount -t erofs -o ro,loop base.erofs m1 2> /dev/null") != 0)
		SKIP("this kernel has no erofs or no loop devices");
	CHECK_INT(shell("mount -t overlay -o lowerdir=m1,upperdir=upper,workdir=work,userxattr "
	                "overlay merged"),
	          0);
	CHECK_INT(shell("cd merged; rm a/big2 many/name-3*; rm -r a/deep; mkdir a/deep; "
	                "echo 2 > a/deep/g; seq 7 80000 > a/new; ln a/new a/new2; chmod 700 a; "
	                "echo first > 'many/!'; echo dot > many/.x; rm empty; mkdir empty; "
	                "echo in > empty/in; chown 7:8 random; head -c 4090 /dev/urandom > close"),
	          0);
}

static void tear_down(void)
{
	(void)!shell("for m in m3 m2 merged m1; do umount $m 2> /dev/null || :; done; "
	             "losetup -l -n -O NAME,BACK-FILE | grep $PWD | while read d _; do "
	             "losetup -d $d; done; cd /; rm -rf $OLDPWD");
}

/* Of two trees: names, modes, owners, numbers of links, and contents. */
#define SAME                                                                                       \
	"l() { (cd $1; find . -mindepth 1 ! -path './tmp/*' ! -type d -printf "                    \
	"'%p %y %m %U %G %l ' \\( -type f -size -64M -exec sha256sum {} \\; -o -printf '\\n' "     \
	"\\); "                                                                                    \
	"find . -type d -printf '%p %m %U %G\\n') | sort; }; "

TEST_FORKED(an_image_over_another_has_the_files_of_both, 120)
{
	static const char *const one[] = {"base.erofs"}, *const two[] = {"one.erofs", "base.erofs"};
	size_t n = 0;

	set_up();
	CHECK_INT(make_over("upper", "one.erofs", one, 1, false, &n), 0);
	CHECK_INT(n, 1);
	CHECK_INT(mount_over("one.erofs", "base.erofs", "m2"), 0);
	CHECK_INT(shell(SAME "l merged > l1; l m2 > l2; diff l1 l2"), 0);
	CHECK_INT(shell("test ! -e m2/tmp/s; test $(stat -c %h m2/a/big) = 1; "
	                "test $(stat -c %h m2/a/new) = 2; test $(stat -c %i m2/a/new) = "
	                "$(stat -c %i m2/a/new2)"),
	          0);
	/* The same files are the same bytes. */
	CHECK_INT(make_over("upper", "again.erofs", one, 1, false, &n), 0);
	CHECK_INT(shell("cmp one.erofs again.erofs"), 0);
	/* And a third over the second, whose blocks are in three files. */
	CHECK_INT(shell("mkdir upper2/a; echo third > upper2/a/third; cp -p merged/a/new upper2/n"),
	          0);
	CHECK_INT(make_over("upper2", "two.erofs", two, 2, false, &n), 0);
	CHECK_INT(n, 2);
	CHECK_INT(mount_over("two.erofs", "one.erofs base.erofs", "m3"), 0);
	CHECK_INT(shell("cmp m3/a/big m2/a/big; cmp m3/a/new m2/a/new; cmp m3/n m2/a/new; "
	                "cmp m3/close m2/close; cmp m3/nearly b/nearly; "
	                "test $(cat m3/a/third) = third; test $(ls m3/many | wc -l) = "
	                "$(ls merged/many | wc -l)"),
	          0);
	tear_down();
}

TEST_FORKED(blocks_of_a_step_are_copied_into_what_is_none, 120)
{
	static const char *const one[] = {"base.erofs"}, *const two[] = {"step.erofs",
	                                                                 "base.erofs"};
	size_t n = 0;

	set_up();
	CHECK_INT(make_over("upper", "step.erofs", one, 1, true, &n), 0);
	CHECK_INT(n, 1);
	CHECK_INT(shell("mkdir upper2/a; echo last > upper2/a/last"), 0);
	CHECK_INT(make_over("upper2", "last.erofs", two, 2, false, &n), 0);
	CHECK_INT(n, 1);
	CHECK_INT(mount_over("last.erofs", "base.erofs", "m2"), 0);
	CHECK_INT(shell("cmp m2/a/new merged/a/new; cmp m2/a/big merged/a/big; "
	                "cmp m2/random merged/random; test $(cat m2/a/last) = last"),
	          0);
	tear_down();
}

/* Whatever is wrong with an image, reading it ends, and within its bytes. */
TEST_FORKED(a_damaged_image_is_refused_or_read_within_its_bytes, 120)
{
	static const char *const one[] = {"bad.erofs"};
	unsigned refused = 0;
	size_t n = 0;

	set_up();
	for (unsigned i = 0; i < 60; i++) {
		auto_free char *script = xasprintf(
			"cp base.erofs bad.erofs; for i in 1 2 3 4 5 6 7 8; do "
			"printf '\\377\\%o' | dd of=bad.erofs conv=notrunc bs=1 status=none "
			"seek=$((1152 + (%u * 7919 + $i * 104729) %% $(stat -c %%s base.erofs)"
			" / 2)); done",
			i % 255, i);

		CHECK_INT(shell(script), 0);
		refused += make_over("upper", "out.erofs", one, 1, false, &n) < 0;
	}
	(void)refused; /* most of a file is contents, which nobody looks at here */
	CHECK_INT(shell("head -c 20000 base.erofs > bad.erofs"), 0);
	CHECK(make_over("upper", "out.erofs", one, 1, false, &n) < 0);
	tear_down();
}
