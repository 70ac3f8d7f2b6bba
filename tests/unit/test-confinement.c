// SPDX-License-Identifier: Apache-2.0
/* What holds a thread, and a copy that is held less. */
#include "test.h"

#include "engine/jail/memory/confinement.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WITH_NOTHING, WITH_NO_NEW_PRIVS, WITH_FILTER };

/* A process that holds still with so many walls. */
static pid_t make_walled(int walls)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {.len = 1, .filter = &allow};
	int ready[2];
	char byte = 0;
	pid_t pid;

	CHECK_INT(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		if (walls >= WITH_NO_NEW_PRIVS)
			byte |= prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0;
		if (walls >= WITH_FILTER)
			byte |= syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0;
		(void)!write(ready[1], &byte, 1);
		for (;;)
			(void)pause();
	}
	CHECK_INT(read(ready[0], &byte, 1), 1);
	CHECK_INT(byte, 0);
	(void)close(ready[0]);
	(void)close(ready[1]);
	return pid;
}

static struct confinement look_at(int walls)
{
	auto_call(buf_done) struct buf all = BUF_INIT(16 * sizeof(struct confinement));
	const pid_t pid = make_walled(walls);
	struct confinement ret = {0};
	struct err err;

	CHECK_INT(confinement_read_process(pid, /* first_id= */ 0, &all, &err), 0);
	CHECK_INT(all.len, sizeof(ret));
	memcpy(&ret, all.data, sizeof(ret));
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	return ret;
}

static int compare(const struct confinement *was, const struct confinement *is, struct err *err)
{
	auto_call(buf_done) struct buf original = BUF_INIT(1024), copy = BUF_INIT(1024);

	CHECK(buf_append(&original, was, sizeof(*was)) >= 0);
	CHECK(buf_append(&copy, is, sizeof(*is)) >= 0);
	return confinement_compare(&original, &copy, err);
}

TEST(a_copy_that_is_held_as_its_original_was_passes)
{
	const struct confinement whole = look_at(WITH_FILTER);
	struct confinement copy = whole;
	struct err err;

	CHECK_INT(whole.filters, 1);
	CHECK_INT(compare(&whole, &copy, &err), 0);
}

TEST(a_copy_that_was_left_without_a_filter_is_refused)
{
	const struct confinement whole = look_at(WITH_FILTER);
	struct confinement copy = look_at(WITH_NO_NEW_PRIVS);
	struct err err;

	copy.tid = whole.tid;
	CHECK_INT(compare(&whole, &copy, &err), -EPERM);
	CHECK(strstr(err.message, "0 of 1 filters") != NULL);
}

TEST(a_copy_that_was_left_without_no_new_privs_is_refused)
{
	struct confinement whole = look_at(WITH_FILTER), copy = look_at(WITH_NOTHING);
	struct err err;

	copy.tid = whole.tid;
	copy.filters = whole.filters;
	CHECK_INT(compare(&whole, &copy, &err), -EPERM);
	CHECK(strstr(err.message, "no_new_privs") != NULL);
}

TEST(a_copy_with_a_capability_more_is_refused_whichever_set_it_is_in)
{
	const struct confinement whole = look_at(WITH_FILTER);

	for (size_t i = 0; i < ARRAY_SIZE(whole.caps); i++) {
		struct confinement was = whole, copy = whole;
		struct err err;

		was.caps[i] = 1;
		copy.caps[i] = 1 | UINT64_C(1) << 21; /* CAP_SYS_ADMIN */
		CHECK_INT(compare(&was, &copy, &err), -EPERM);
		copy.caps[i] = 0; /* less is no harm */
		CHECK_INT(compare(&was, &copy, &err), 0);
	}
}

TEST(a_copy_with_a_stranger_in_it_or_nobody_is_refused)
{
	const struct confinement whole = look_at(WITH_FILTER);
	struct confinement copy = whole;
	struct buf original = BUF_INIT(1024), none = BUF_INIT(1024);
	struct err err;

	copy.tid++;
	CHECK_INT(compare(&whole, &copy, &err), -EPERM);
	copy = whole;
	copy.uid++;
	CHECK_INT(compare(&whole, &copy, &err), -EPERM);
	CHECK_INT(confinement_compare(&original, &none, &err), -ESRCH);
}

TEST(processes_of_the_host_are_not_taken_for_a_copy)
{
	const pid_t pid = make_walled(WITH_FILTER);
	struct confinement_around around = {
		.pid = pid, .first_id = 0x30000000, .group = "/cloche/sb_x", .n_trees = 1};
	struct err err;

	CHECK_INT(confinement_check_around(&around, &err), -EPERM);
	CHECK(strstr(err.message, "range of ids") != NULL);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}
