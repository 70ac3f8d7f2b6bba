// SPDX-License-Identifier: Apache-2.0
#include "sandbox/exec/exec_feed.h"

#include "sandbox/exec/exec_private.h"

struct exec_feed {
	struct list link;
	struct exec *exec;
	char *input;
	size_t len, at;
	bool closes;
	exec_fed_fn done;
	void *arg;
};

static void free_feed(struct exec_feed *f)
{
	list_remove(&f->link);
	free(f->input);
	free(f);
}

static void finish(struct exec_feed *f, const struct err *err)
{
	exec_fed_fn done = f->done;
	void *arg = f->arg;

	free_feed(f);
	if (done)
		done(err, arg);
}

/* Returns 1 if it is through, 0 if there is no room now. */
static int go_on(struct exec_feed *f, struct err *err)
{
	struct exec *e = f->exec;

	while (f->at < f->len) {
		ssize_t n = exec_put_stdin(e, f->input + f->at, f->len - f->at, err);

		if (n < 0)
			return (int)n;
		if (n == 0)
			return 0;
		f->at += (size_t)n;
	}
	if (!f->closes)
		return 1;
	return exec_put_stdin_end(e, err) < 0 ? -1 : 1;
}

void exec_feed_on(struct exec *e)
{
	struct exec_feed *f;
	struct err err;

	while ((f = list_first(&e->feeds, struct exec_feed, link))) {
		int r = go_on(f, &err);

		if (r == 0)
			return;
		finish(f, r < 0 ? &err : NULL);
	}
}

void exec_feed_free_all(struct exec *e)
{
	struct exec_feed *f;

	while ((f = list_first(&e->feeds, struct exec_feed, link)))
		free_feed(f);
}

struct exec_feed *exec_feed(struct exec *e, char *input, size_t len, bool closes, exec_fed_fn done,
                            void *arg)
{
	struct exec_feed *f = xnew0(struct exec_feed);

	*f = (struct exec_feed){
		.exec = e, .input = input, .len = len, .closes = closes, .done = done, .arg = arg};
	list_append(&e->feeds, &f->link);
	if (done) {
		exec_wake(e);
		return f;
	}
	exec_feed_on(e);
	return NULL;
}

bool exec_is_fed(const struct exec *e)
{
	return !list_empty(&e->feeds);
}

void exec_feed_cancel(struct exec_feed *f)
{
	struct exec *e = f->exec;

	free_feed(f);
	exec_wake(e);
}
