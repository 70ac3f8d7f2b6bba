// SPDX-License-Identifier: Apache-2.0
/*
 * The directory in which a template's programs begin. An image may name one that none of its layers
 * has: other runtimes make it when a container starts, and so it is made here, root's and open to
 * all. An image that has it is not asked again: its files never change.
 *
 * If a file of the image is in its place, the sandbox is made all the same, and each command that
 * would begin there says why it cannot.
 */
#include "base/log.h"
#include "sandbox/fileops/file_call.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/storage/template.h"

#include <string.h>

static struct template *template_of(const struct sandbox *s)
{
	return template_find_image(s->fleet, s->template, &s->image);
}

static void on_end(const struct err *err, void *arg)
{
	struct sandbox *s = arg;
	struct template *t = template_of(s);

	s->directory = NULL;
	if (err && err->code == ERR_FILE_EXISTS && t)
		template_note_directory(t);
	else if (err && err->code != ERR_FILE_EXISTS)
		log_warn("sandbox.no_directory", "id=%s error='%s'", s->id, err->message);
	life_next(s);
}

static void ignore_record(const struct record *r, void *arg)
{
	(void)r;
	(void)arg;
}

/* What a snapshot has, or has no more, is its owner's doing. */
static bool is_needed(const struct sandbox *s)
{
	const struct template *t;

	if (!s->cwd || strcmp(s->cwd, "/") == 0 || s->resumes > 0 || s->snapshot_id[0])
		return false;
	t = template_of(s);
	return !t || !template_has_directory(t, s->cwd);
}

void directory_begin(struct sandbox *s)
{
	static const struct file_call_ops ops = {.on_record = ignore_record, .on_end = on_end};
	const struct start op = {.kind = START_FILE,
	                         .op = FILE_MKDIR,
	                         .flags = FILE_PARENTS | FILE_EXCLUSIVE,
	                         .user = unconst("root"),
	                         .path = s->cwd};
	struct err err;

	if (!is_needed(s))
		life_next(s);
	else if (file_call_begin(s, &op, &ops, s, &s->directory, &err) < 0)
		create_fail(s, &err);
}

void directory_end(struct sandbox *s)
{
	if (s->directory)
		file_call_cancel(take_ptr(s->directory));
}
