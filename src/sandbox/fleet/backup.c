// SPDX-License-Identifier: Apache-2.0
/*
 *	none --> copying --> freezing --> held --> releasing --> none
 *
 * The database is copied in small steps, one per turn. In the turn in which the copy is complete,
 * the broker is asked to freeze all that is kept, and does so before any later request
 * (broker/backups.c). So a backup is what a power cut would leave at that moment if everything were
 * on disk, and a start handles both in the same way (startup_adoption.c).
 *
 * Frozen copies do not outlive a restart: the broker removes its own when it starts, and the
 * directory of the database copy is emptied here.
 */
#include "sandbox/fleet/backup.h"

#include "base/clock.h"
#include "base/fs/dir_reader.h"
#include "base/log.h"
#include "sandbox/fleet/fleet_private.h"
#include "store/copy.h"

#include <fcntl.h>
#include <sys/stat.h>

struct backups {
	struct fleet *fleet;
	enum { NONE, COPYING, FREEZING, HELD, RELEASING } state;
	bool is_left; /* by its caller */
	bool is_next; /* he waits for the release of the last one */
	struct store_copy *copy;
	struct backup_info info;
	char path[128];
	struct loop_timer *step;
	uint64_t tag; /* of what the broker was asked last */
	backup_ready_fn fn;
	void *arg;
};

static void remove_copy(struct backups *b)
{
	static const char *const ends[] = {"", "-wal", "-journal"};

	store_copy_free(take_ptr(b->copy));
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		auto_free char *path = xasprintf("%s%s", b->path, ends[i]);

		(void)unlink(path);
	}
}

static void on_released(const struct msg_reply *reply, void *arg);

static void release(struct backups *b)
{
	const struct msg_request req = {.op = MSG_BACKUP_END};

	remove_copy(b);
	b->state = RELEASING;
	if (broker_client_ask(b->fleet->broker, &req, on_released, b, &b->tag, NULL) < 0)
		b->state = NONE; /* the broker is gone: the next one removes it */
}

static void fail(struct backups *b, const struct err *err)
{
	log_warn("backup.failed", "id=%s error='%s'", b->info.id, err->message);
	if (!b->is_left)
		b->fn(NULL, err, b->arg);
	b->is_left = true;
}

static size_t count_left_out(const struct fleet *fleet)
{
	size_t n = 0;

	list_for_each (&fleet->all, const struct sandbox, s, link_all)
		n += s->place == PLACE_ALIVE && !s->is_persistent && !s->paused_in[0] &&
		     s->project_id[0];
	return n;
}

static void on_frozen(const struct msg_reply *reply, void *arg)
{
	struct backups *b = arg;

	if (reply->err.code != ERR_NONE)
		fail(b, &reply->err);
	if (b->is_left) {
		release(b);
		return;
	}
	b->state = HELD;
	b->info.counts = reply->backup;
	log_info("backup.frozen", "id=%s", b->info.id);
	b->fn(&b->info, NULL, b->arg);
}

static int freeze(struct backups *b, struct err *err)
{
	const struct msg_request req = {.op = MSG_BACKUP};
	struct stat st;

	if (stat(b->path, &st) < 0)
		return err_set(err, ERR_INTERNAL, errno, "the copy of the database is gone");
	b->info.database_bytes = (uint64_t)st.st_size;
	b->info.at_us = clock_wall_us();
	b->info.left_out = count_left_out(b->fleet);
	return broker_client_ask(b->fleet->broker, &req, on_frozen, b, &b->tag, err);
}

static void on_step(struct loop *loop, void *arg)
{
	struct backups *b = arg;
	struct err err;
	int r = store_copy_step(b->copy, &err);

	(void)loop;
	if (r == 1) {
		loop_timer_set_in(b->step, 0);
		return;
	}
	store_copy_free(take_ptr(b->copy));
	if (r == 0)
		r = freeze(b, &err);
	if (r == 0) {
		b->state = FREEZING;
		return;
	}
	remove_copy(b);
	b->state = NONE;
	fail(b, &err);
}

static int start(struct backups *b, struct err *err)
{
	const struct fleet_config *config = &b->fleet->config;
	int r;

	id_make(b->info.id, "bk");
	(void)snprintf(b->path, sizeof(b->path), "%s/%s.db", config->backup_dir, b->info.id);
	b->info.database = b->path;
	r = store_copy_begin(config->store, b->path, &b->copy, err);
	if (r < 0)
		return r;
	b->state = COPYING;
	loop_timer_set_in(b->step, 0);
	log_info("backup.begun", "id=%s", b->info.id);
	return 0;
}

static void on_released(const struct msg_reply *reply, void *arg)
{
	struct backups *b = arg;
	struct err err;

	if (reply->err.code != ERR_NONE)
		log_warn("backup.not_removed", "id=%s error='%s'", b->info.id, reply->err.message);
	b->state = NONE;
	log_info("backup.ended", "id=%s", b->info.id);
	if (!b->is_next)
		return;
	b->is_next = false;
	if (start(b, &err) < 0)
		fail(b, &err);
}

int backup_begin(struct fleet *fleet, backup_ready_fn fn, void *arg, struct err *err)
{
	struct backups *b = fleet->backups;

	if (!b)
		return err_set(err, ERR_UNSUPPORTED, 0, "this daemon makes no backups");
	if (b->is_next || (b->state != NONE && b->state != RELEASING)) {
		(void)err_set(err, ERR_CONFLICT, EBUSY, "a backup is being made already");
		return err_hint(err, "wait for its end, then try again");
	}
	b->is_left = false;
	b->fn = fn;
	b->arg = arg;
	b->is_next = b->state == RELEASING;
	return b->is_next ? 0 : start(b, err);
}

void backup_end(struct fleet *fleet)
{
	struct backups *b = fleet->backups;

	b->is_left = true;
	b->is_next = false;
	switch (b->state) {
	case COPYING:
		loop_timer_set(b->step, UINT64_MAX);
		remove_copy(b);
		b->state = NONE;
		return;
	case HELD:
		release(b);
		return;
	case NONE:
	case FREEZING: /* on_frozen() does the rest */
	case RELEASING:
		return;
	}
}

static int empty_dir(const char *path, struct err *err)
{
	auto_fd int fd = -1;
	struct dir_reader dir;
	const char *name;
	int r;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_set(err, ERR_INTERNAL, errno, "cannot make the directory of backups");
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = fd < 0 ? -errno : dir_begin(&dir, fd);
	while (r == 0 && (name = dir_next(&dir)))
		(void)unlinkat(fd, name, 0);
	if (r == 0)
		r = dir.error;
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot empty the directory of backups") : 0;
}

int backups_open(struct fleet *fleet, struct err *err)
{
	struct backups *b;
	int r = empty_dir(fleet->config.backup_dir, err);

	if (r < 0)
		return r;
	b = xnew0(struct backups);
	b->fleet = fleet;
	b->step = loop_timer_new(fleet->config.loop, on_step, b);
	fleet->backups = b;
	return 0;
}

void backups_close(struct fleet *fleet)
{
	struct backups *b = take_ptr(fleet->backups);

	if (!b)
		return;
	if (b->state != NONE)
		remove_copy(b);
	broker_client_cancel(fleet->broker, b->tag);
	loop_timer_free(b->step);
	free(b);
}
