// SPDX-License-Identifier: Apache-2.0
/* A backup back into an empty data directory. All of it is read and checked before the first byte
 * is put in its place. */
#include "backup/restore.h"
#include "cli/frame/command.h"
#include "cli/term/progress.h"
#include "cli/term/text.h"
#include "daemon/daemon.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DATA_DIR "/var/lib/cloche"
#define RUN_DIR  "/run/cloche"

struct restore_opts {
	const char *data, *run, *user, *backup;
};

static void on_bytes(uint64_t bytes, void *arg)
{
	progress_add(arg, bytes);
}

static void print_text(const struct manifest *m, const struct restore_result *got, const char *data)
{
	char bytes[16];

	text_bytes(got->bytes, bytes);
	printf("%s restored into %s: %s\n", m->id, data, bytes);
	printf("  %" PRIu64 " persistent sandboxes, %" PRIu64 " volumes, %" PRIu64
	       " snapshots, %" PRIu64 " template images, %" PRIu64 " files\n",
	       got->sandboxes, got->volumes, got->snapshots, got->templates, got->files);
	if (m->left_out > 0)
		printf("  not in the backup: %" PRIu64
		       " sandboxes that ran and were not persistent\n",
		       m->left_out);
	if (got->memories > 0)
		printf("  %" PRIu64 " snapshots have memory: it can be resumed on a host like the "
		       "first%s; their files can be used anywhere\n",
		       got->memories,
		       got->is_other_kernel ? ", and this one has another kernel" : "");
	printf("  start the daemon: sandboxes that ran are stopped, and can be resumed\n");
}

static void print_json(const struct manifest *m, const struct restore_result *got)
{
	auto_json json_t *out = json_pack(
		"{ss sI sI sI sI sI sI sI sI sI sb}", "id", m->id, "at_us", (json_int_t)m->at_us,
		"bytes", (json_int_t)got->bytes, "sandboxes", (json_int_t)got->sandboxes, "volumes",
		(json_int_t)got->volumes, "snapshots", (json_int_t)got->snapshots, "templates",
		(json_int_t)got->templates, "files", (json_int_t)got->files, "memory_snapshots",
		(json_int_t)got->memories, "sandboxes_left_out", (json_int_t)m->left_out,
		"other_kernel", got->is_other_kernel);

	command_print_json(out);
}

static int put_back(struct command *c, struct content *content, const struct manifest *m,
                    struct err *err)
{
	const struct restore_opts *o = c->arg;
	struct progress progress;
	struct restore_spec spec = {.data_dir = o->data, .progress = on_bytes, .arg = &progress};
	struct restore_result result;
	int r = daemon_find_user(o->user, &spec.uid, &spec.gid, err);

	if (r == 0)
		r = restore_check(m, o->data, o->run, err);
	if (r < 0)
		return r;
	progress_init(&progress, 2 * manifest_bytes(m));
	r = restore_verify(content, m, on_bytes, &progress, err);
	if (r == 0)
		r = restore_run(content, m, &spec, &result, err);
	progress_done(&progress);
	if (r < 0)
		return r;
	if (c->common.json)
		print_json(m, &result);
	else
		print_text(m, &result, o->data);
	return 0;
}

static int restore(struct command *c, struct err *err)
{
	struct restore_opts *o = c->arg;
	auto_call(content_closep) struct content *content = NULL;
	struct manifest m;
	int r;

	if (geteuid() != 0)
		return err_set(err, ERR_FORBIDDEN, EPERM, "only root can restore a backup");
	if (!o->run && strcmp(o->data, DATA_DIR) == 0)
		o->run = RUN_DIR;
	if (o->data[0] != '/')
		return err_field(err, "data", "'%.80s' is no absolute path", o->data);
	r = content_open(c->words[0], &content, err);
	if (r == 0)
		r = restore_find(content, o->backup, &m, err);
	if (r < 0)
		return r;
	r = put_back(c, content, &m, err);
	manifest_done(&m);
	return r;
}

int cmd_restore(int argc, char **argv)
{
	struct restore_opts opts = {.data = DATA_DIR, .user = "cloche"};
	const struct opt rows[] = {
		{0, "data", OPT_TEXT, &opts.data, "DIR",
	         "the data directory, empty or not there (default " DATA_DIR ")"},
		{0, "run", OPT_TEXT, &opts.run, "DIR",
	         "its daemon's run directory, where nothing may run (default " RUN_DIR
	         " without --data)"},
		{0, "user", OPT_TEXT, &opts.user, "NAME",
	         "the daemon's user, as its settings say (default cloche)"},
		{0, "backup", OPT_TEXT, &opts.backup, "ID",
	         "which backup of a directory, by its id or time (default the newest)"},
	};
	const struct manual manual = {
		.name = "restore",
		.synopsis = "[OPTIONS] DIR\n[OPTIONS] FILE.tar",
		.about = "Puts a backup of `cloche backup` back into an empty data directory, "
			 "while no "
			 "daemon uses it.\nAll of it is read and checked first. Says what was "
			 "restored, and what was not in the backup.",
		.examples =
			"  sudo systemctl stop cloche && sudo mv /var/lib/cloche "
			"/var/lib/cloche.old\n"
			"  sudo cloche restore /mnt/backup/cloche && sudo systemctl start cloche\n"
			"  sudo cloche restore --data /tmp/look --backup bk_2f /mnt/backup/cloche",
		.min_words = 1,
		.max_words = 1,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main_offline(&manual, argc, argv, restore, &opts);
}
