// SPDX-License-Identifier: Apache-2.0
/*
 * Programs for Vercel's sandboxes work in /vercel/sandbox, and have their own programs in
 * /vercel/bin. So a few directories are made once in any template; from then on they are part of
 * the sandbox's files. The user has Vercel's name there and its home, beside the template's own: a
 * name that the template has given to somebody else, and a template without our user, are left
 * alone. The source of a create was put into the user's home, the only place that the
 * user could write to, and is moved to where it is expected.
 */
#include "compat/vercel/vercel_sandbox.h"
#include "sandbox/fileops/file_call.h"

#include <stdio.h>
#include <string.h>

struct session_setup {
	struct fleet *fleet;
	char sandbox_id[ID_SIZE], project_id[ID_SIZE];
	char *owner, *target;    /* target: what the source becomes, or NULL */
	const char *name, *home; /* the user's further name; NULL = none */
	unsigned step;
	session_setup_fn done;
	void *arg;
};

static void end(struct session_setup *f, const struct err *err)
{
	f->done(err, f->arg);
	free(f->owner);
	free(f->target);
	free(f);
}

static void go_on(struct session_setup *f);

static void on_end(const struct err *err, void *arg)
{
	struct session_setup *f = arg;

	if (err && f->step == 0 &&
	    (err->code == ERR_FILE_NOT_FOUND || err->code == ERR_FILE_EXISTS)) {
		f->name = NULL;
		err = NULL;
	}
	f->step++;
	if (err)
		end(f, err);
	else
		go_on(f);
}

static void on_record(const struct record *r, void *arg)
{
	(void)r;
	(void)arg;
}

/* The next step; false if there is none. */
static bool next_step(struct session_setup *f, struct start *ret)
{
	bool fills_home = f->target && strcmp(f->target, VERCEL_HOME) == 0;
	const struct step {
		enum file_op op; /* 0 = left out */
		uint32_t flags;
		const char *user, *path, *path2, *owner;
	} steps[] = {
		{f->name ? FILE_USER : 0, 0, "root", "/etc", f->home, f->name},
		{FILE_MKDIR, FILE_PARENTS, "root", "/vercel"},
		{FILE_CHOWN, 0, "root", "/vercel", NULL, f->owner},
		{FILE_MKDIR, FILE_PARENTS, f->owner, "/vercel/bin"},
		{fills_home ? 0 : FILE_MKDIR, FILE_PARENTS, f->owner, VERCEL_HOME},
		{f->name ? FILE_MKDIR : 0, FILE_PARENTS, "root", f->home},
		{f->name ? FILE_CHOWN : 0, 0, "root", f->home, NULL, f->owner},
		{f->target ? FILE_MOVE : 0, 0, "", VERCEL_SOURCE, f->target},
	};
	const struct step *step;

	while (f->step < ARRAY_SIZE(steps) && steps[f->step].op == 0)
		f->step++;
	if (f->step == ARRAY_SIZE(steps))
		return false;
	step = &steps[f->step];
	*ret = (struct start){.kind = START_FILE,
	                      .op = step->op,
	                      .flags = step->flags,
	                      .user = unconst(step->user),
	                      .path = unconst(step->path),
	                      .path2 = unconst(step->path2),
	                      .owner = unconst(step->owner)};
	return true;
}

static void go_on(struct session_setup *f)
{
	static const struct file_call_ops ops = {.on_record = on_record, .on_end = on_end};
	struct sandbox *s = sandbox_find(f->fleet, f->project_id, f->sandbox_id);
	struct file_call *call;
	struct start op;
	struct err err;

	if (!s)
		(void)err_set(&err, ERR_GONE, 0, "the sandbox was deleted meanwhile");
	if (s && !next_step(f, &op)) {
		end(f, f->name && sandbox_set_user(s, f->name, &err) < 0 ? &err : NULL);
		return;
	}
	if (!s || file_call_start(s, &op, &ops, f, &call, &err) < 0)
		end(f, &err);
}

void session_setup(struct sandbox *s, const char *owner, const struct vercel_user *user,
                   const char *repository, session_setup_fn done, void *arg)
{
	struct session_setup *f = xnew0(struct session_setup);

	*f = (struct session_setup){.fleet = sandbox_fleet(s), .done = done, .arg = arg};
	if (user) {
		f->name = user->name;
		f->home = user->home;
	}
	(void)snprintf(f->sandbox_id, sizeof(f->sandbox_id), "%s", sandbox_id(s));
	(void)snprintf(f->project_id, sizeof(f->project_id), "%s", sandbox_project_id(s));
	f->owner = xstrdup(owner);
	if (repository)
		f->target = repository[0] ? xasprintf(VERCEL_HOME "/%s", repository)
		                          : xstrdup(VERCEL_HOME);
	go_on(f);
}
