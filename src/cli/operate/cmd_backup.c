// SPDX-License-Identifier: Apache-2.0
/*
 * Backups. The daemon freezes its database and all that is kept, for as long as our request is
 * open. We are root on the same machine, and copy it. When we end, for whatever reason, all of it
 * is released.
 */
#include "backup/keep.h"
#include "backup/make.h"
#include "backup/restore.h"
#include "cli/frame/command.h"
#include "cli/remote/lines.h"
#include "cli/term/progress.h"
#include "cli/term/text.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LINE_MAX_BYTES (64 * 1024)
#define KEEP_FREE      (UINT64_C(1) << 30) /* on the daemon's own disk */

struct backup_opts {
	uint64_t keep;
	bool verify, list;
};

struct run {
	const char *path;
	struct content *content;
	struct progress progress;
	struct make_result result;
	char id[ID_SIZE];
	uint64_t at_us, left_out;
};

static void on_bytes(uint64_t bytes, void *arg)
{
	progress_add(arg, bytes);
}

/* A backup in the data directory would be in itself; one beside it must leave the daemon room. */
static int check_place(const struct run *run, const char *data_dir, struct err *err)
{
	auto_free char *data = realpath(data_dir, NULL);
	auto_free char *place = realpath(run->path, NULL);
	auto_free char *layers = xasprintf("%s/gateway", data_dir);
	struct stat ours, theirs;
	size_t len;

	if (!data)
		return err_set(err, ERR_UNAVAILABLE, errno,
		               "the daemon's data directory '%s' is not on this machine", data_dir);
	len = strlen(data);
	if (place && strncmp(place, data, len) == 0 && (place[len] == '/' || place[len] == '\0'))
		return err_set(err, ERR_CONFLICT, 0, "'%s' lies in the data directory itself",
		               run->path);
	if (place && stat(place, &ours) == 0 && stat(layers, &theirs) == 0 &&
	    ours.st_dev == theirs.st_dev)
		content_keep_free(run->content, KEEP_FREE);
	return 0;
}

static int read_source(const json_t *event, struct make_source *ret, struct err *err)
{
	const json_t *backup = json_object_get(event, "backup");

	if (strcmp(command_text(event, "type"), "frozen") != 0 || !json_is_object(backup))
		return err_set(err, ERR_INTERNAL, EPROTO, "the daemon gave an unexpected answer");
	*ret = (struct make_source){
		.id = command_text(backup, "id"),
		.version = command_text(backup, "version"),
		.data_dir = command_text(backup, "data_dir"),
		.database = command_text(backup, "database"),
		.database_bytes = command_number(backup, "database_bytes"),
		.at_us = command_number(backup, "at_us"),
		.layers = command_number(backup, "layers"),
		.templates = command_number(backup, "templates"),
		.left_out = command_number(backup, "sandboxes_left_out"),
	};
	while (ret->database[0] == '/')
		ret->database++;
	return 0;
}

/* What is frozen is there for as long as this has not returned. */
static int on_line(void *arg, const char *line, size_t len, struct err *err)
{
	struct run *run = arg;
	auto_json json_t *event = NULL;
	struct make_source source;
	int r = json_parse(line, len, &event, err);

	if (r == 0)
		r = read_source(event, &source, err);
	if (r == 0)
		r = check_place(run, source.data_dir, err);
	if (r < 0)
		return r;
	(void)snprintf(run->id, sizeof(run->id), "%s", source.id);
	run->at_us = source.at_us;
	run->left_out = source.left_out;
	progress_init(&run->progress, 0);
	r = make_backup(&source, run->content, on_bytes, &run->progress, &run->result, err);
	progress_done(&run->progress);
	return r < 0 ? r : 1;
}

static int freeze_and_copy(struct command *c, struct run *run, struct err *err)
{
	const struct remote_request request = {.accept = "application/x-ndjson"};
	auto_free char *path = remote_path("backups");
	int r = remote_open(&c->common, &c->remote, err);

	if (r < 0)
		return r;
	remote_note(c->remote, "waiting for the daemon to freeze what is kept");
	r = remote_begin(c->remote, "POST", path, &request, err);
	if (r == 0)
		r = lines_read(c->remote, LINE_MAX_BYTES, on_line, run, err);
	if (r == 0)
		r = err_set(err, ERR_UNAVAILABLE, EPIPE,
		            "the daemon ended before anything was frozen");
	return MIN(r, 0);
}

static void print_kinds(uint64_t sandboxes, uint64_t volumes, uint64_t snapshots,
                        uint64_t templates)
{
	printf("  %" PRIu64 " persistent sandboxes, %" PRIu64 " volumes, %" PRIu64
	       " snapshots, %" PRIu64 " template images\n",
	       sandboxes, volumes, snapshots, templates);
}

static void print_run(const struct run *run, uint64_t removed, uint64_t freed)
{
	char all[16], read[16], added[16], text[16];

	text_bytes(run->result.bytes, all);
	text_bytes(run->result.read, read);
	text_bytes(run->result.added, added);
	printf("%s: %s, of which %s had changed; %s written\n", run->id, all, read, added);
	print_kinds(run->result.sandboxes, run->result.volumes, run->result.snapshots,
	            run->result.templates);
	if (run->left_out > 0)
		printf("  not in it: %" PRIu64 " sandboxes that run and are not persistent\n",
		       run->left_out);
	text_bytes(freed, text);
	if (removed > 0)
		printf("  %" PRIu64 " older backups removed, %s freed\n", removed, text);
}

static void print_json(const struct run *run, uint64_t removed, uint64_t freed)
{
	const struct make_result *m = &run->result;
	auto_json json_t *out =
		json_pack("{ss sI sI sI sI sI sI sI sI sI sI sI sI}", "id", run->id, "at_us",
	                  (json_int_t)run->at_us, "bytes", (json_int_t)m->bytes, "read_bytes",
	                  (json_int_t)m->read, "written_bytes", (json_int_t)m->added, "sandboxes",
	                  (json_int_t)m->sandboxes, "volumes", (json_int_t)m->volumes, "snapshots",
	                  (json_int_t)m->snapshots, "templates", (json_int_t)m->templates, "files",
	                  (json_int_t)m->files, "sandboxes_left_out", (json_int_t)run->left_out,
	                  "removed", (json_int_t)removed, "freed_bytes", (json_int_t)freed);

	command_print_json(out);
}

static int make(struct command *c, struct err *err)
{
	const struct backup_opts *o = c->arg;
	struct run run = {.path = c->words[0]};
	uint64_t removed = 0, freed = 0;
	int r;

	if (geteuid() != 0) {
		(void)err_set(err, ERR_FORBIDDEN, EPERM, "only root can read what sandboxes keep");
		return err_hint(err, "sudo cloche backup, on the daemon's machine");
	}
	r = content_create(run.path, &run.content, err);
	if (r == 0)
		r = freeze_and_copy(c, &run, err);
	content_close(run.content);
	if (r == 0 && o->keep > 0)
		r = keep_newest(run.path, o->keep, &removed, &freed, err);
	if (r < 0)
		return r;
	if (c->common.json)
		print_json(&run, removed, freed);
	else
		print_run(&run, removed, freed);
	return 0;
}

struct counts {
	uint64_t sandboxes, volumes, snapshots, templates;
};

static struct counts count(const struct manifest *m)
{
	struct counts n = {0};

	for (size_t i = 0; i < m->n_parts; i++) {
		const struct part *p = &m->parts[i];

		n.sandboxes += p->kind == PART_SUBVOLUME && strncmp(p->path, "layers/sb_", 10) == 0;
		n.volumes += p->kind == PART_SUBVOLUME && strncmp(p->path, "layers/vo_", 10) == 0;
		n.snapshots += p->kind == PART_SUBVOLUME && strncmp(p->path, "layers/sn_", 10) == 0;
		n.templates += p->kind == PART_DIRECTORY && strncmp(p->path, "templates/", 10) == 0;
	}
	return n;
}

static json_t *to_json(const struct manifest *m)
{
	const struct counts n = count(m);

	return json_pack("{ss ss sI sI sI sI sI sI sI}", "id", m->id, "version", m->version,
	                 "at_us", (json_int_t)m->at_us, "bytes", (json_int_t)manifest_bytes(m),
	                 "sandboxes", (json_int_t)n.sandboxes, "volumes", (json_int_t)n.volumes,
	                 "snapshots", (json_int_t)n.snapshots, "templates", (json_int_t)n.templates,
	                 "sandboxes_left_out", (json_int_t)m->left_out);
}

struct each {
	struct command *command;
	struct content *content;
	json_t *list;
	struct table table;
	bool verify;
};

static void add_row(struct table *t, const struct manifest *m, const char *name)
{
	const struct counts n = count(m);
	const uint64_t numbers[] = {n.sandboxes, n.volumes, n.snapshots, n.templates};
	char text[24];

	table_add(t, m->id);
	(void)snprintf(text, sizeof(text), "%.16s", name);
	table_add(t, text);
	text_bytes(manifest_bytes(m), text);
	table_add(t, text);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		(void)snprintf(text, sizeof(text), "%" PRIu64, numbers[i]);
		table_add(t, text);
	}
	table_add(t, m->version);
}

static int look_at(const char *name, void *arg, struct err *err)
{
	struct each *e = arg;
	struct progress progress;
	struct manifest m;
	int r = restore_find(e->content, name, &m, err);

	if (r < 0)
		return r;
	progress_init(&progress, manifest_bytes(&m));
	r = e->verify ? restore_verify(e->content, &m, on_bytes, &progress, err) : 0;
	progress_done(&progress);
	(void)json_array_append_new(e->list, to_json(&m));
	add_row(&e->table, &m, name);
	manifest_done(&m);
	return r < 0 ? err_prefix(err, "%.16s", name) : 0;
}

static int look(struct command *c, bool verify, struct err *err)
{
	static const char *const heads[] = {"ID",      "TIME",      "SIZE",   "SANDBOXES",
	                                    "VOLUMES", "SNAPSHOTS", "IMAGES", "VERSION"};
	auto_call(content_closep) struct content *content = NULL;
	auto_json json_t *list = json_array();
	struct each e = {.command = c,
	                 .list = list,
	                 .verify = verify,
	                 .table = {.heads = heads, .n_columns = ARRAY_SIZE(heads)}};
	int r = content_open(c->words[0], &content, err);

	e.content = content;
	if (r == 0)
		r = content_each(content, look_at, &e, err);
	if (r == 0 && json_array_size(list) == 0)
		r = err_set(err, ERR_NOT_FOUND, 0, "'%s' holds no whole backup", c->words[0]);
	if (r == 0 && c->common.json)
		command_print_json(list);
	else if (r == 0)
		table_print(&e.table);
	table_done(&e.table);
	return r;
}

static int backup(struct command *c, struct err *err)
{
	const struct backup_opts *o = c->arg;

	return o->verify || o->list ? look(c, o->verify, err) : make(c, err);
}

int cmd_backup(int argc, char **argv)
{
	struct backup_opts opts = {0};
	const struct opt rows[] = {
		{0, "keep", OPT_NUMBER, &opts.keep, "N",
	         "afterwards remove all but the newest N backups in the directory"},
		{0, "verify", OPT_FLAG, &opts.verify, NULL,
	         "make no backup; read those that are there, and say whether they are whole"},
		{0, "list", OPT_FLAG, &opts.list, NULL,
	         "make no backup; list those that are there"},
	};
	const struct manual manual = {
		.name = "backup",
		.synopsis = "[OPTIONS] DIR\n[OPTIONS] FILE.tar",
		.about = "Copies all that the daemon keeps, while it runs: the database with its "
			 "keys and quotas,\n"
			 "persistent sandboxes, volumes, snapshots, templates, kept output. A "
			 "directory can hold many\n"
			 "backups, and each copies only what has changed; a file holds one. Needs "
			 "root on the daemon's\n"
			 "machine. Whoever can read a backup can read all that tenants wrote.",
		.examples = "  sudo cloche backup /mnt/backup/cloche\n"
			    "  sudo cloche backup --keep 14 /mnt/backup/cloche\n"
			    "  sudo cloche backup --verify /mnt/backup/cloche\n"
			    "  sudo cloche restore /mnt/backup/cloche",
		.min_words = 1,
		.max_words = 1,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main_offline(&manual, argc, argv, backup, &opts);
}
