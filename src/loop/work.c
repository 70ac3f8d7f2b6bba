// SPDX-License-Identifier: Apache-2.0
#include "loop/work.h"

#include "base/auto.h"
#include "base/list.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define STACK_SIZE ((size_t)128 * 1024)

struct job {
	struct list link;
	work_fn run;
	work_done_fn done;
	void *arg;
	int result;
};

struct work {
	pthread_t thread;
	pthread_mutex_t lock; /* of the lists and is_over */
	pthread_cond_t more;
	struct list waiting, finished;
	bool is_over;
	int event_fd; /* wakes the loop */
	struct loop_io *io;
};

static struct job *take_first(struct list *jobs)
{
	struct job *job = list_first(jobs, struct job, link);

	if (job)
		list_remove(&job->link);
	return job;
}

/* The next one, or NULL at the end. */
static struct job *await_job(struct work *w)
{
	struct job *job = NULL;

	(void)pthread_mutex_lock(&w->lock);
	while (!w->is_over && list_empty(&w->waiting))
		(void)pthread_cond_wait(&w->more, &w->lock);
	if (!w->is_over)
		job = take_first(&w->waiting);
	(void)pthread_mutex_unlock(&w->lock);
	return job;
}

/* Tells the loop that a job is done. EAGAIN means that the counter is full, so the loop is awake
 * anyway.
 */
static void wake_loop(const struct work *w)
{
	while (write(w->event_fd, &(uint64_t){1}, sizeof(uint64_t)) < 0 && errno != EAGAIN)
		;
}

static void *run_thread(void *arg)
{
	struct work *w = arg;
	struct job *job;

	while ((job = await_job(w))) {
		job->result = job->run(job->arg);
		(void)pthread_mutex_lock(&w->lock);
		list_append(&w->finished, &job->link);
		(void)pthread_mutex_unlock(&w->lock);
		wake_loop(w);
	}
	return NULL;
}

/* The loop's thread handles all signals; this one blocks them. */
static int start_thread(struct work *w)
{
	pthread_attr_t attr;
	sigset_t all, before;
	int r = pthread_attr_init(&attr);

	if (r != 0)
		return -r;
	(void)sigfillset(&all);
	(void)sigdelset(&all, SIGSYS); /* seccomp sends it: blocked, it would kill us */
	(void)pthread_attr_setstacksize(&attr, STACK_SIZE);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&w->thread, &attr, run_thread, w);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attr);
	return -r;
}

int work_new(struct work **ret)
{
	struct work *w = xnew0(struct work);
	int r;

	list_init(&w->waiting);
	list_init(&w->finished);
	(void)pthread_mutex_init(&w->lock, NULL);
	(void)pthread_cond_init(&w->more, NULL);
	w->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = w->event_fd < 0 ? -errno : start_thread(w);
	if (r < 0) {
		if (w->event_fd >= 0)
			(void)close(w->event_fd);
		free(w);
		return r;
	}
	*ret = w;
	return 0;
}

static struct job *take_finished(struct work *w)
{
	struct job *job;

	(void)pthread_mutex_lock(&w->lock);
	job = take_first(&w->finished);
	(void)pthread_mutex_unlock(&w->lock);
	return job;
}

static void on_event(struct loop *loop, uint32_t events, void *arg)
{
	struct work *w = arg;
	struct job *job;
	uint64_t count;

	(void)loop;
	(void)events;
	(void)!read(w->event_fd, &count, sizeof(count));
	while ((job = take_finished(w))) {
		job->done(job->result, job->arg);
		free(job);
	}
}

int work_attach(struct work *w, struct loop *loop)
{
	return loop_io_add(loop, w->event_fd, EPOLLIN, on_event, w, &w->io);
}

void work_do(struct work *w, work_fn run, work_done_fn done, void *arg)
{
	struct job *job = xnew0(struct job);

	*job = (struct job){.run = run, .done = done, .arg = arg};
	(void)pthread_mutex_lock(&w->lock);
	list_append(&w->waiting, &job->link);
	(void)pthread_cond_signal(&w->more);
	(void)pthread_mutex_unlock(&w->lock);
}

void work_free(struct work *w)
{
	struct job *job;

	if (!w)
		return;
	(void)pthread_mutex_lock(&w->lock);
	w->is_over = true;
	(void)pthread_cond_signal(&w->more);
	(void)pthread_mutex_unlock(&w->lock);
	(void)pthread_join(w->thread, NULL);
	while ((job = take_first(&w->waiting)) || (job = take_first(&w->finished)))
		free(job);
	loop_io_removep(&w->io);
	(void)close(w->event_fd);
	(void)pthread_cond_destroy(&w->more);
	(void)pthread_mutex_destroy(&w->lock);
	free(w);
}
