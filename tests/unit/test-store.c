// SPDX-License-Identifier: Apache-2.0
#include "base/fd.h"
#include "store/copy.h"
#include "store/migrate.h"
#include "store/store.h"
#include "store/tables/faces.h"
#include "store/tables/volumes.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char dir[64], path[96];

static void set_up(void)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/cloche-store-XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	(void)snprintf(path, sizeof(path), "%s/state.db", dir);
}

static void tear_down(void)
{
	static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		auto_free char *name = xasprintf("%s%s", path, suffixes[i]);

		(void)unlink(name);
	}
	CHECK_INT(rmdir(dir), 0);
}

static struct store *open_store(void)
{
	struct store *st = NULL;
	struct err err = {0};

	if (store_open(path, &st, &err) < 0)
		CHECK_STR(err.message, "");
	return st;
}

static void run_sql(const char *sql)
{
	sqlite3 *db;

	CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
	CHECK_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	CHECK_INT(sqlite3_close(db), SQLITE_OK);
}

static void put_rows(struct store *st)
{
	struct project_row project = {.id = "prj_1", .name = "default", .created_us = 1};
	struct key_row key = {.id = "key_1",
	                      .project_id = "prj_1",
	                      .name = "admin",
	                      .hash = {1, 2, 3},
	                      .scope = 3,
	                      .created_us = 2};
	struct sandbox_row sandbox = {.id = "sb_1",
	                              .project_id = "prj_1",
	                              .name = "",
	                              .json = "{}",
	                              .state = 1,
	                              .created_us = 3};
	struct exec_row exec = {.id = "ex_1",
	                        .sandbox_id = "sb_1",
	                        .channel = 7,
	                        .json = "{\"a\":1}",
	                        .created_us = 4};

	CHECK_INT(store_put_project(st, &project, NULL), 0);
	CHECK_INT(store_put_key(st, &key, NULL), 0);
	CHECK_INT(store_put_sandbox(st, &sandbox, NULL), 0);
	CHECK_INT(store_put_exec(st, &exec, NULL), 0);
	exec.id = "ex_2";
	exec.created_us = 3;
	CHECK_INT(store_put_exec(st, &exec, NULL), 0);
}

static int add_id(char *text, const char *id)
{
	size_t len = strlen(text);

	(void)snprintf(text + len, 128 - len, "%s ", id);
	return 0;
}

static int on_project(const struct project_row *row, void *arg)
{
	return add_id(arg, row->id);
}

static int on_key(const struct key_row *row, void *arg)
{
	CHECK_INT(row->hash[2], 3);
	CHECK_INT(row->scope, 3);
	return add_id(arg, row->id);
}

static int on_sandbox(const struct sandbox_row *row, void *arg)
{
	CHECK_INT(row->state, 1);
	return add_id(arg, row->id);
}

static int on_exec(const struct exec_row *row, void *arg)
{
	CHECK_INT(row->channel, 7);
	CHECK_STR(row->json, "{\"a\":1}");
	return add_id(arg, row->id);
}

static void list_all(struct store *st, char text[128])
{
	text[0] = '\0';
	CHECK_INT(store_each_project(st, on_project, text, NULL), 0);
	CHECK_INT(store_each_key(st, on_key, text, NULL), 0);
	CHECK_INT(store_each_sandbox(st, on_sandbox, text, NULL), 0);
	CHECK_INT(store_each_exec(st, on_exec, text, NULL), 0);
}

TEST(rows_come_back_in_order_of_creation_after_a_close)
{
	struct store *st;
	char text[128];

	set_up();
	st = open_store();
	put_rows(st);
	store_close(st);
	st = open_store();
	list_all(st, text);
	CHECK_STR(text, "prj_1 key_1 sb_1 ex_2 ex_1 ");
	store_close(st);
	tear_down();
}

TEST(rows_survive_a_writer_that_was_killed)
{
	struct store *st;
	char text[128];
	pid_t pid;

	set_up();
	pid = fork();
	if (pid == 0) {
		put_rows(open_store());
		(void)raise(SIGKILL);
	}
	CHECK_INT(waitpid(pid, NULL, 0), pid);
	st = open_store();
	list_all(st, text);
	CHECK_STR(text, "prj_1 key_1 sb_1 ex_2 ex_1 ");
	store_close(st);
	tear_down();
}

TEST(changing_a_sandbox_keeps_its_execs_and_deleting_it_does_not)
{
	struct sandbox_row row = {.id = "sb_1",
	                          .project_id = "prj_1",
	                          .name = "",
	                          .json = "{}",
	                          .state = 1,
	                          .created_us = 3,
	                          .ended_us = 9};
	struct store *st;
	char text[128];

	set_up();
	st = open_store();
	put_rows(st);
	CHECK_INT(store_put_sandbox(st, &row, NULL), 0);
	list_all(st, text);
	CHECK_STR(text, "prj_1 key_1 sb_1 ex_2 ex_1 ");
	CHECK_INT(store_delete_execs(st, &(const char *){"ex_2"}, 1, NULL), 0);
	list_all(st, text);
	CHECK_STR(text, "prj_1 key_1 sb_1 ex_1 ");
	CHECK_INT(store_delete_sandbox(st, "sb_1", NULL), 0);
	list_all(st, text);
	CHECK_STR(text, "prj_1 key_1 ");
	store_close(st);
	tear_down();
}

static int stop_at_first(const struct exec_row *row, void *arg)
{
	(void)add_id(arg, row->id);
	return -ECANCELED;
}

TEST(a_walk_ends_with_the_error_of_its_callback)
{
	char text[128] = "";
	struct store *st;

	set_up();
	st = open_store();
	put_rows(st);
	CHECK_INT(store_each_exec(st, stop_at_first, text, NULL), -ECANCELED);
	CHECK_STR(text, "ex_2 ");
	store_close(st);
	tear_down();
}

TEST(a_file_of_a_newer_schema_is_refused_and_left_alone)
{
	struct store *st = NULL;
	struct err err = {0};

	set_up();
	store_close(open_store());
	run_sql("CREATE TABLE of_the_future (a); PRAGMA user_version = 99");
	CHECK(store_open(path, &st, &err) < 0);
	CHECK_INT(err.code, ERR_UNSUPPORTED);
	CHECK(strstr(err.message, "schema version 99") != NULL);
	CHECK(st == NULL);
	run_sql("SELECT a FROM of_the_future");
	tear_down();
}

/* As the last cloche left it that had volumes in the table of faces. */
static void make_old_file(void)
{
	static const char *const steps[] = {
		store_schema,           store_schema_usage,     store_schema_events,
		store_schema_contexts,  store_schema_hooks,     store_schema_identity,
		store_schema_once,      store_schema_templates, store_schema_builds,
		store_schema_snapshots, store_schema_faces,     store_schema_logins,
	};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		run_sql(steps[i]);
	run_sql("INSERT INTO faces VALUES "
	        "('vo_2', 'volume', 20, '{\"project_id\":\"prj_1\",\"key_id\":\"\",\"name\":\"b\","
	        "\"bytes\":1099511627776,\"has_one_writer\":true,\"notes\":{\"x\":{\"y\":\"z\"}}}')"
	        ", "
	        "('vo_1', 'volume', 10, "
	        "'{\"project_id\":\"prj_1\",\"key_id\":\"key_1\",\"name\":\"a\","
	        "\"bytes\":1048576,\"has_one_writer\":false}'), "
	        "('vs_1', 'vercel.sandbox', 30, '{}'); PRAGMA user_version = 12");
}

static int on_volume(const struct volume_row *row, void *arg)
{
	char *text = arg;
	size_t len = strlen(text);

	(void)snprintf(text + len, 256 - len, "%s %s '%s' %s %llu %d %llu %s;", row->id,
	               row->project_id, row->key_id, row->name, (unsigned long long)row->bytes,
	               row->has_one_writer, (unsigned long long)row->created_us,
	               row->notes ? row->notes : "-");
	return 0;
}

static int on_face(const struct face_row *row, void *arg)
{
	return add_id(arg, row->id);
}

TEST(volumes_of_an_old_file_come_into_their_own_table_once)
{
	set_up();
	make_old_file();
	for (int i = 0; i < 2; i++) { /* the second start has nothing to do */
		struct store *st = open_store();
		char volumes[256] = "", faces[128] = "";

		CHECK_INT(store_each_volume(st, on_volume, volumes, NULL), 0);
		CHECK_STR(volumes, "vo_1 prj_1 'key_1' a 1048576 0 10 -;"
		                   "vo_2 prj_1 '' b 1099511627776 1 20 {\"x\":{\"y\":\"z\"}};");
		CHECK_INT(store_each_face(st, "volume", on_face, faces, NULL), 0);
		CHECK_INT(store_each_face(st, "vercel.sandbox", on_face, faces, NULL), 0);
		CHECK_STR(faces, "vs_1 ");
		store_close(st);
	}
	tear_down();
}

TEST(an_old_file_whose_volume_cannot_be_read_is_refused_and_left_alone)
{
	struct store *st = NULL;
	struct err err = {0};

	set_up();
	make_old_file();
	run_sql("UPDATE faces SET json = '{' WHERE id = 'vo_2'");
	CHECK(store_open(path, &st, &err) < 0);
	CHECK(strstr(err.message, "from schema version 12 to 13") != NULL);
	run_sql("CREATE TABLE volumes (a)"); /* the half that was done is undone */
	tear_down();
}

TEST(a_file_that_is_no_database_is_refused_and_left_alone)
{
	static const char garbage[] = "this is not a database, and somebody may want it back\n";
	char text[128];
	struct store *st = NULL;
	struct err err = {0};

	set_up();
	CHECK_INT(fd_replace_file(AT_FDCWD, path, garbage, strlen(garbage), 0600, false), 0);
	CHECK(store_open(path, &st, &err) < 0);
	CHECK(strstr(err.message, "is damaged") != NULL);
	CHECK(err.hint[0] != '\0');
	CHECK(fd_read_file(AT_FDCWD, path, text, sizeof(text)) > 0);
	CHECK(strncmp(text, garbage, 40) == 0);
	tear_down();
}

TEST(a_file_damaged_inside_is_found_after_an_unclean_exit)
{
	struct store *st = NULL;
	struct err err = {0};
	char page[4096];
	int fd;

	set_up();
	st = open_store();
	put_rows(st);
	store_close(st);
	st = NULL;
	fd = open(path, O_WRONLY | O_CLOEXEC);
	memset(page, 0xee, sizeof(page));
	for (int i = 1; i < 8; i++)
		CHECK_INT(pwrite(fd, page, sizeof(page), i * 4096), 4096);
	(void)close(fd);
	{
		auto_free char *wal = xasprintf("%s-wal", path);

		CHECK_INT(fd_replace_file(AT_FDCWD, wal, "torn", 4, 0600, false), 0);
	}
	CHECK(store_open(path, &st, &err) < 0);
	CHECK(strstr(err.message, "is damaged") != NULL);
	tear_down();
}

TEST(a_second_opener_is_told_that_the_file_is_in_use)
{
	struct store *st, *other = NULL;
	struct err err = {0};

	set_up();
	st = open_store();
	CHECK(store_open(path, &other, &err) < 0);
	CHECK_INT(err.code, ERR_UNAVAILABLE);
	store_close(st);
	tear_down();
}

TEST(the_file_is_readable_by_its_owner_only)
{
	struct store *st;
	struct stat info;

	set_up();
	st = open_store();
	CHECK_INT(stat(path, &info), 0);
	CHECK_INT(info.st_mode & 07777, 0600);
	store_close(st);
	tear_down();
}

TEST(a_key_of_no_project_is_refused)
{
	struct key_row key = {.id = "key_9", .project_id = "prj_9", .name = "x", .scope = 1};
	struct store *st;
	struct err err = {0};

	set_up();
	st = open_store();
	CHECK(store_put_key(st, &key, &err) < 0);
	CHECK_INT(err.code, ERR_INTERNAL);
	store_close(st);
	tear_down();
}

static int note_boot(const struct sandbox_row *row, void *arg)
{
	(void)snprintf(arg, 64, "%s", row->json);
	return 0;
}

TEST(a_copy_is_what_the_database_is_in_the_step_that_finishes_it)
{
	struct sandbox_row late = {.project_id = "prj_1",
	                           .name = "",
	                           .state = 1,
	                           .created_us = 9,
	                           .json = "{\"boot_id\":\"this one\",\"a\":1}"};
	struct store *st, *copy = NULL;
	struct store_copy *c = NULL;
	auto_free char *large = xasprintf("{\"pad\":\"%02000000d\"}", 0); /* several steps */
	struct sandbox_row heavy = {.id = "sb_2",
	                            .project_id = "prj_1",
	                            .name = "",
	                            .state = 1,
	                            .created_us = 5,
	                            .json = large};
	struct err err = {0};
	char copied[96], was[128] = "", is[128] = "", json[64] = "", id[24];
	int n = 0;

	set_up();
	(void)snprintf(copied, sizeof(copied), "%s/copy.db", dir);
	st = open_store();
	put_rows(st);
	CHECK_INT(store_put_sandbox(st, &heavy, &err), 0);
	CHECK_INT(store_copy_begin(st, copied, &c, &err), 0);
	do { /* whatever is written between two steps is in it, too */
		late.id = id;
		(void)snprintf(id, sizeof(id), "sb_late%d", n++);
		CHECK_INT(store_put_sandbox(st, &late, &err), 0);
	} while (store_copy_step(c, &err) == 1);
	CHECK_STR(err.message, "");
	CHECK(n > 1);
	store_copy_free(c);
	list_all(st, was);
	store_close(st);
	CHECK_INT(store_open(copied, &copy, &err), 0);
	list_all(copy, is);
	CHECK_STR(is, was);
	/* What ran did so under no boot of this machine. */
	CHECK_INT(store_each_sandbox(copy, note_boot, json, &err), 0);
	CHECK_STR(json, "{\"boot_id\":\"\",\"a\":1}");
	store_close(copy);
	CHECK_INT(unlink(copied), 0);
	tear_down();
}
