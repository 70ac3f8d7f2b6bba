// SPDX-License-Identifier: Apache-2.0
#include "loop/work.h"
#include "test.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct task {
	struct loop *loop;
	char *told; /* a letter for each that was */
	pid_t tid;
	int result;
};

static int note_thread(void *arg)
{
	struct task *task = arg;

	task->tid = (pid_t)syscall(SYS_gettid);
	return task->result;
}

static void on_done(int result, void *arg)
{
	const struct task *task = arg;
	size_t len = strlen(task->told);

	CHECK_INT(result, task->result);
	CHECK(task->tid > 0 && task->tid != (pid_t)syscall(SYS_gettid));
	task->told[len] = (char)('a' - result);
	if (len == 2)
		loop_stop(task->loop);
}

TEST_FORKED(jobs_are_done_by_a_thread_in_their_order_and_told_by_the_loop, 10)
{
	char told[8] = "";
	struct err err;
	struct loop *loop;
	struct work *work;

	CHECK_INT(loop_new(&loop, &err), 0);
	CHECK_INT(work_new(&work), 0);
	CHECK_INT(work_attach(work, loop), 0);
	struct task tasks[] = {
		{loop, told, 0, 0},
		{loop, told, 0, -2},
		{loop, told, 0, -1},
	};
	for (size_t i = 0; i < ARRAY_SIZE(tasks); i++)
		work_do(work, note_thread, on_done, &tasks[i]);
	CHECK_STR(told, "");
	CHECK_INT(loop_run(loop), 0);
	CHECK_STR(told, "acb");
	work_do(work, note_thread, on_done, &tasks[0]);
	work_free(work); /* whatever became of the last one, nobody is told */
	CHECK_STR(told, "acb");
	loop_free(loop);
}
