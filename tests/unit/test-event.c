// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "base/log.h"
#include "event/event.h"
#include "event/metrics.h"
#include "event/rate.h"
#include "event/verify.h"
#include "test.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#define SANDBOX "sb_aaaaaaaaaaaaaaaaaaaaaaaaaa"
#define OTHER   "sb_bbbbbbbbbbbbbbbbbbbbbbbbbb"

static struct {
	char dir[64], db[96];
	struct loop *loop;
	struct store *store;
	struct event_log *log;
	struct event_config config;
	bool is_done;
} rig;

static void open_log(void)
{
	CHECK_INT(loop_new(&rig.loop, NULL), 0);
	CHECK_INT(store_open(rig.db, &rig.store, NULL), 0);
	rig.config.loop = rig.loop;
	rig.config.store = rig.store;
	CHECK_INT(event_log_open(&rig.config, &rig.log, NULL), 0);
}

static void close_log(void)
{
	event_log_close(rig.log);
	store_close(rig.store);
	loop_free(rig.loop);
}

static void set_up(void)
{
	log_init("test", LOG_ERROR + 1);
	(void)snprintf(rig.dir, sizeof(rig.dir), "/tmp/cloche-event-XXXXXX");
	CHECK(mkdtemp(rig.dir) != NULL);
	(void)snprintf(rig.db, sizeof(rig.db), "%s/state.db", rig.dir);
	rig.config = (struct event_config){
		.boot_id = "boot-1",
		.limits = {.age_us = UINT64_MAX, .bytes = 1 << 20, .count = 10000, .rate = 1000},
	};
	open_log();
}

static void tear_down(void)
{
	close_log();
	(void)unlink(rig.db);
	CHECK_INT(rmdir(rig.dir), 0);
}

static void stop(struct loop *loop, void *arg)
{
	*(bool *)arg = true;
	loop_stop(loop);
}

/* Lets the loop run for a moment: all that is due now, and all that this makes due at once. */
static void turn(void)
{
	struct loop_timer *t = loop_timer_new(rig.loop, stop, &rig.is_done);

	for (int i = 0; i < 4; i++) {
		loop_timer_set_in(t, 0);
		CHECK_INT(loop_run(rig.loop), 0);
	}
	loop_timer_free(t);
}

static void add(enum event_type type, const char *project_id, const char *sandbox_id)
{
	struct event e;

	json_put_str(event_begin(&e, rig.log, type, project_id, sandbox_id), "fact", "x");
	event_end(&e);
}

struct export
{
	size_t n;
	uint64_t first_seq, last_seq, first_place, last_place;
	struct chain_link last;
	struct chain_export *chains;
	struct err err;
	int r;
	char text[4096]; /* the last line */
};

static int take_line(const struct event_line *line, void *arg)
{
	struct export *x = arg;
	struct chain_link link = {0};

	CHECK(line->len < sizeof(x->text));
	memcpy(x->text, line->json, line->len);
	x->text[line->len] = '\0';
	if (x->r == 0)
		x->r = chain_check_line(line->json, line->len, &link, &x->err);
	if (x->r == 0)
		x->r = chain_export_add(x->chains, &link, /* is_partial= */ false, &x->err);
	x->first_seq = x->n == 0 ? link.seq : x->first_seq;
	x->last_seq = link.seq;
	x->first_place = x->n == 0 ? link.place : x->first_place;
	x->last_place = link.place;
	if (x->r == 0)
		CHECK_INT(line->cursor, link.place ? link.place : link.seq);
	x->last = link;
	x->n++;
	return 0;
}

static struct export export_all(const struct event_filter *filter)
{
	struct export x = {.chains = chain_export_new()};
	uint64_t after = 0;
	int r;

	while ((r = event_log_read(rig.log, filter, &after, take_line, &x, NULL)) > 0)
		;
	CHECK_INT(r, 0);
	chain_export_free(x.chains);
	return x;
}

static struct event_status status(void)
{
	struct event_status ret;

	event_log_status(rig.log, &ret);
	return ret;
}

static struct event_chain_status chain(const char *project_id)
{
	struct event_chain_status ret;

	event_log_chain(rig.log, project_id, /* is_audit= */ false, &ret);
	return ret;
}

static void run_sql(const char *sql)
{
	sqlite3 *db;

	CHECK_INT(sqlite3_open(rig.db, &db), SQLITE_OK);
	CHECK_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	CHECK_INT(sqlite3_close(db), SQLITE_OK);
}

static void alter(const char *sql)
{
	close_log();
	run_sql(sql);
	open_log();
}

static const struct event_filter everything = {0};

TEST(entries_are_numbered_from_one_and_each_links_to_the_one_before)
{
	struct export x;

	set_up();
	for (int i = 0; i < 600; i++)
		add(EVENT_SANDBOX_CREATED, "prj_1", SANDBOX);
	turn();
	x = export_all(&everything);
	CHECK_INT(x.n, 600);
	CHECK_INT(x.first_seq, 1);
	CHECK_INT(x.last_seq, 600);
	CHECK_STR(x.err.message, "");
	CHECK_STR(chain("prj_1").head_hash, x.last.hash);
	tear_down();
}

TEST(an_entry_is_one_line_with_its_origin_and_facts)
{
	struct export x;
	char *at_us;

	set_up();
	event_log_set_origin(rig.log, &(struct event_origin){.key_id = "key_1",
	                                                     .request_id = "req_1",
	                                                     .client = "192.0.2.1",
	                                                     .agent = "curl/8 \xff\"\n"});
	add(EVENT_EXEC_EXITED, "prj_1", SANDBOX);
	event_log_set_origin(rig.log, &(struct event_origin){0});
	turn();
	x = export_all(&everything);
	at_us = strstr(x.text, ",\"type\"");
	CHECK(at_us != NULL);
	*strstr(at_us, ",\"prev\"") = '\0';
	CHECK_STR(at_us,
	          ",\"type\":\"exec.exited\",\"project_id\":\"prj_1\",\"sandbox_id\":\"" SANDBOX
	          "\",\"exec_id\":null,\"key_id\":\"key_1\",\"request_id\":\"req_1\","
	          "\"from\":\"192.0.2.1\",\"agent\":\"curl/8 ?\\\"?\","
	          "\"data\":{\"fact\":\"x\"}");
	tear_down();
}

TEST(a_chain_goes_on_over_a_restart)
{
	struct export x;

	set_up();
	add(EVENT_SANDBOX_CREATED, "prj_1", SANDBOX);
	close_log(); /* writes what waits */
	open_log();
	add(EVENT_SANDBOX_ENDED, "prj_1", SANDBOX);
	turn();
	x = export_all(&everything);
	CHECK_INT(x.n, 2);
	CHECK_INT(x.last_seq, 2);
	CHECK_STR(x.err.message, "");
	tear_down();
}

TEST(numbers_jump_after_a_restart_of_the_machine_and_the_chain_holds)
{
	struct export x;

	set_up();
	add(EVENT_SANDBOX_CREATED, "prj_1", SANDBOX);
	close_log();
	rig.config.boot_id = "boot-2";
	open_log();
	add(EVENT_SANDBOX_ENDED, "prj_1", SANDBOX);
	turn();
	x = export_all(&everything);
	CHECK_INT(x.n, 2);
	CHECK_INT(x.last_seq, 1 + (1 << 20) + 1);
	CHECK_STR(x.err.message, "");
	tear_down();
}

static void check_altered(const char *sql, const char *message)
{
	struct export x;

	set_up();
	for (int i = 0; i < 5; i++)
		add(EVENT_SANDBOX_CREATED, "prj_1", SANDBOX);
	turn();
	alter(sql);
	x = export_all(&everything);
	CHECK_STR(x.err.message, message);
	tear_down();
}

TEST(an_altered_entry_is_found)
{
	check_altered("UPDATE events SET project_id = 'prj_2' WHERE seq = 3",
	              "entry 3 was altered");
	check_altered("UPDATE events SET at_us = at_us + 1 WHERE seq = 1", "entry 1 was altered");
	check_altered("UPDATE events SET data = '{}' WHERE seq = 5", "entry 5 was altered");
}

TEST(a_removed_entry_is_found)
{
	check_altered("DELETE FROM events WHERE seq = 3",
	              "project prj_1: entry 4 does not follow entry 2: something between them is "
	              "missing, or one "
	              "was altered");
}

TEST(swapped_entries_are_found)
{
	check_altered("UPDATE events SET seq = -seq WHERE seq IN (2, 3);"
	              "UPDATE events SET seq = 5 + seq WHERE seq < 0;"
	              "UPDATE events SET place = -place WHERE place IN (2, 3);"
	              "UPDATE events SET place = 5 + place WHERE place < 0",
	              "entry 2 was altered");
}

TEST(an_entry_that_is_moved_to_another_project_is_found)
{
	struct export x;

	set_up();
	for (int i = 0; i < 3; i++)
		add(EVENT_SANDBOX_CREATED, i == 1 ? "prj_2" : "prj_1", SANDBOX);
	turn();
	alter("UPDATE events SET project_id = 'prj_3' WHERE place = 2;"
	      "UPDATE event_chains SET project_id = 'prj_3' WHERE seq = 1 AND place = 2");
	x = export_all(&(struct event_filter){.project_id = "prj_3"});
	CHECK_STR(x.err.message, "entry 1 was altered");
	CHECK_STR(export_all(&(struct event_filter){.project_id = "prj_1"}).err.message, "");
	tear_down();
}

TEST(a_projects_numbers_do_not_move_with_what_others_do)
{
	const struct event_filter first = {.project_id = "prj_1"}, second = {.project_id = "prj_2"};
	struct export x;
	uint64_t place;

	set_up();
	add(EVENT_SANDBOX_CREATED, "prj_1", SANDBOX);
	turn();
	place = status().place;
	for (int i = 0; i < 300; i++)
		add(i % 2 ? EVENT_SANDBOX_CREATED : EVENT_DAEMON_STARTED, i % 2 ? "prj_2" : NULL,
		    NULL);
	turn();
	CHECK_INT(chain("prj_1").head_seq, 1);
	CHECK_INT(status().place, place + 300); /* the control: the host's order does move */
	add(EVENT_SANDBOX_ENDED, "prj_1", SANDBOX);
	turn();
	x = export_all(&first);
	CHECK_INT(x.n, 2);
	CHECK_INT(x.last_seq, 2);
	CHECK_INT(x.last_place, 0); /* not told */
	CHECK_STR(x.err.message, "");
	CHECK_STR(chain("prj_1").head_hash, x.last.hash);
	x = export_all(&second);
	CHECK_INT(x.first_seq, 1);
	CHECK_INT(x.last_seq, 150);
	CHECK_STR(x.err.message, "");
	CHECK_INT(chain("").head_seq, 150);
	x = export_all(&everything);
	CHECK_INT(x.n, 302);
	CHECK_INT(x.last_place, 302);
	CHECK_STR(x.err.message, "");
	tear_down();
}

TEST(a_project_that_causes_many_entries_loses_its_own_and_no_others)
{
	struct export x;

	set_up();
	rig.config.limits.count = 100;
	close_log();
	open_log();
	for (int i = 0; i < 20; i++)
		add(EVENT_SANDBOX_CREATED, "prj_1", SANDBOX);
	add(EVENT_DAEMON_STARTED, NULL, NULL);
	for (int i = 0; i < 2000; i++)
		add(EVENT_SANDBOX_CREATED, "prj_2", OTHER);
	turn();
	turn(); /* it removes a part in each turn of the loop */
	CHECK_INT(status().count, 100);
	x = export_all(&(struct event_filter){.project_id = "prj_1"});
	CHECK_INT(x.n, 20);
	CHECK_INT(x.first_seq, 1);
	x = export_all(&(struct event_filter){.project_id = "prj_2"});
	CHECK_INT(x.n, 79);
	CHECK_INT(x.last_seq, 2000);
	CHECK_STR(x.err.message, "");
	CHECK_INT(chain("prj_2").anchor_seq, 2000 - 79);
	CHECK_STR(export_all(&everything).err.message, "");
	tear_down();
}

static size_t count_audit(const char *project_id)
{
	const struct event_filter filter = {.project_id = project_id, .is_audit = true};
	struct export x = export_all(&filter);

	CHECK_STR(x.err.message, "");
	return x.n;
}

TEST(the_audit_log_has_chains_of_its_own_and_is_written_a_little_later)
{
	struct export x;

	set_up();
	add(EVENT_SANDBOX_CREATED, "prj_1", SANDBOX);
	for (int i = 0; i < 31; i++)
		add(EVENT_API_READ, "prj_1", SANDBOX);
	turn();
	CHECK_INT(count_audit("prj_1"), 0);
	add(EVENT_API_WRITE, "prj_1", SANDBOX); /* enough to be worth a transaction */
	turn();
	CHECK_INT(count_audit("prj_1"), 32);
	CHECK_INT(chain("prj_1").head_seq, 1); /* they move no number of the event log */
	x = export_all(&everything);
	CHECK_INT(x.n, 1);
	add(EVENT_API_READ, "prj_1", SANDBOX);
	close_log(); /* writes what waits */
	open_log();
	CHECK_INT(count_audit("prj_1"), 33);
	CHECK_INT(count_audit(NULL), 33);
	tear_down();
}

TEST(reads_push_out_neither_events_nor_anothers_reads)
{
	set_up();
	rig.config.limits.count = 100;
	close_log();
	open_log();
	for (int i = 0; i < 20; i++)
		add(EVENT_SANDBOX_CREATED, "prj_1", SANDBOX);
	for (int i = 0; i < 20; i++)
		add(EVENT_API_READ, "prj_2", SANDBOX);
	for (int i = 0; i < 2000; i++)
		add(EVENT_API_READ, "prj_1", SANDBOX);
	for (int i = 0; i < 4; i++)
		turn();
	CHECK_INT(export_all(&everything).n, 20);
	CHECK_INT(count_audit("prj_2"), 20);
	CHECK(count_audit("prj_1") <= 60);
	tear_down();
}

TEST(a_projects_reads_over_its_rate_are_told_as_a_number)
{
	struct export x;

	set_up();
	rig.config.limits.rate = 1;
	close_log();
	open_log();
	for (int i = 0; i < 64; i++)
		add(EVENT_API_READ, "prj_1", SANDBOX);
	for (int i = 0; i < 10; i++)
		add(EVENT_API_READ, "prj_2", SANDBOX);
	add(EVENT_EXEC_STARTED, "prj_1", SANDBOX); /* is counted by itself */
	CHECK_INT(status().suppressed, 54);
	turn();
	x = export_all(&everything);
	CHECK_INT(x.n, 1);
	tear_down();
}

TEST(places_and_numbers_go_on_after_all_was_removed_and_the_log_was_opened_anew)
{
	set_up();
	for (int i = 0; i < 7; i++)
		add(EVENT_SANDBOX_CREATED, "prj_1", SANDBOX);
	turn();
	rig.config.limits.age_us = 0;
	for (int i = 0; i < 2; i++) {
		close_log();
		open_log();
		turn();
	}
	CHECK_INT(status().count, 0);
	CHECK_INT(status().place, 7);
	CHECK_INT(event_log_removed(rig.log, &everything), 7);
	CHECK_INT(event_log_removed(rig.log, &(struct event_filter){.project_id = "prj_1"}), 7);
	tear_down();
}

TEST(a_cut_off_end_does_not_match_the_head)
{
	struct export x;

	set_up();
	for (int i = 0; i < 5; i++)
		add(EVENT_SANDBOX_CREATED, "prj_1", SANDBOX);
	turn();
	alter("DELETE FROM events WHERE seq = 5");
	x = export_all(&everything);
	CHECK_STR(x.err.message, "");
	CHECK(strcmp(chain("prj_1").head_hash, x.last.hash) != 0);
	tear_down();
}

TEST(the_oldest_go_and_the_anchor_keeps_the_hash_of_the_last_one_removed)
{
	struct export before, after;
	char hash[CHAIN_HEX_SIZE];

	set_up();
	rig.config.limits.count = 10;
	close_log();
	open_log();
	for (int i = 0; i < 10; i++)
		add(EVENT_SANDBOX_CREATED, "prj_1", SANDBOX);
	turn();
	before = export_all(&everything);
	CHECK_INT(before.n, 10);
	memcpy(hash, before.last.hash, sizeof(hash));
	for (int i = 0; i < 10; i++)
		add(EVENT_SANDBOX_CREATED, "prj_1", SANDBOX);
	turn();
	after = export_all(&everything);
	CHECK_INT(after.n, 10);
	CHECK_INT(after.first_seq, 11);
	CHECK_INT(chain("prj_1").anchor_seq, 10);
	CHECK_STR(chain("prj_1").anchor_hash, hash);
	CHECK_STR(after.err.message, "");
	tear_down();
}

TEST(bytes_and_age_bound_the_log_too)
{
	set_up();
	rig.config.limits.bytes = 2000;
	close_log();
	open_log();
	for (int i = 0; i < 100; i++)
		add(EVENT_SANDBOX_CREATED, "prj_1", SANDBOX);
	turn();
	CHECK(status().bytes <= 2000);
	CHECK(status().count > 0);
	rig.config.limits.age_us = 0;
	close_log();
	open_log();
	turn();
	CHECK_INT(status().count, 0);
	CHECK_INT(status().bytes, 0);
	CHECK_INT(chain("prj_1").anchor_seq, 100);
	add(EVENT_SANDBOX_CREATED, "prj_1", SANDBOX);
	turn();
	CHECK_INT(chain("prj_1").head_seq, 101);
	tear_down();
}

TEST(a_project_may_have_an_age_of_its_own)
{
	set_up();
	for (int i = 0; i < 3; i++) {
		add(EVENT_SANDBOX_CREATED, "prj_1", SANDBOX);
		add(EVENT_SANDBOX_CREATED, "prj_2", OTHER);
		add(EVENT_API_READ, "prj_2", OTHER);
	}
	close_log();
	open_log();
	event_log_set_age(rig.log, "prj_2", 1);
	turn();
	CHECK_INT(chain("prj_1").count, 3);
	CHECK_INT(chain("prj_2").count, 0);
	CHECK_INT(chain("prj_2").anchor_seq, 3);
	CHECK_INT(status().count, 3); /* the audit log goes, too */
	event_log_set_age(rig.log, "prj_2", 0);
	add(EVENT_SANDBOX_CREATED, "prj_2", OTHER);
	turn();
	CHECK_INT(chain("prj_2").count, 1);
	CHECK_STR(export_all(&everything).err.message, "");
	tear_down();
}

TEST(a_sandbox_over_its_rate_is_told_as_a_number_and_others_go_on)
{
	struct export x;

	set_up();
	rig.config.limits.rate = 1;
	close_log();
	open_log();
	for (int i = 0; i < 100; i++)
		add(EVENT_EXEC_STARTED, "prj_1", SANDBOX);
	add(EVENT_EXEC_STARTED, "prj_1", OTHER);
	add(EVENT_SANDBOX_ENDED, "prj_1", SANDBOX); /* never left out, and tells the rest */
	turn();
	x = export_all(&(struct event_filter){.sandbox_id = OTHER});
	CHECK_INT(x.n, 1);
	x = export_all(&(struct event_filter){.sandbox_id = SANDBOX});
	CHECK_INT(x.n, 12);
	CHECK_INT(status().suppressed, 90);
	x = export_all(&(struct event_filter){.types = BIT64(EVENT_SUPPRESSED)});
	CHECK_INT(x.n, 1);
	CHECK(strstr(x.text, "\"data\":{\"why\":\"rate\",\"count\":90}") != NULL);
	CHECK_STR(export_all(&everything).err.message, "");
	tear_down();
}

static void count_bucket(const struct rate_bucket *b, void *arg)
{
	*(uint64_t *)arg += b->suppressed;
}

TEST(a_bucket_fills_with_time_and_is_forgotten_when_full)
{
	struct rate rate = {.per_second = 2};
	uint64_t told = 0;

	for (int i = 0; i < 20; i++)
		CHECK(rate_take(&rate, SANDBOX, "prj_1", 1, 1000));
	CHECK(!rate_take(&rate, SANDBOX, "prj_1", 1, 1000));
	rate_sweep(&rate, 1000, count_bucket, &told);
	CHECK_INT(told, 0);
	rate_sweep(&rate, 501000, count_bucket, &told);
	CHECK_INT(told, 1);
	CHECK(rate_take(&rate, SANDBOX, "prj_1", 1, 501000));
	CHECK(!rate_take(&rate, SANDBOX, "prj_1", 1, 501000));
	rate_sweep(&rate, 60000000, count_bucket, &told);
	CHECK_INT(told, 2);
	rate_sweep(&rate, 60000000, count_bucket, &told);
	CHECK(rate.buckets == NULL);
	rate_done(&rate);
}

TEST(texts_from_outside_are_cut_and_cannot_break_a_line)
{
	char text[1000];
	struct export x;
	struct event e;

	set_up();
	memset(text, 'a', sizeof(text));
	memcpy(text, "\"}\n{\x1b[2J\xff\xc3", 10);
	memcpy(text + EVENT_TEXT_MAX - 1, "\xc3\xa4", 2); /* across the cut */
	text[sizeof(text) - 1] = '\0';
	event_put_text(event_begin(&e, rig.log, EVENT_EXEC_STARTED, "prj_1", SANDBOX), "program",
	               text);
	event_end(&e);
	turn();
	x = export_all(&everything);
	CHECK_INT(x.n, 1);
	CHECK_STR(x.err.message, "");
	CHECK(strpbrk(x.text, "\n\x1b\xff") == NULL);
	CHECK(strlen(x.text) < 800);
	tear_down();
}

TEST(facts_that_are_too_many_are_left_out_and_the_entry_stays)
{
	struct export x;
	struct event e;
	struct json_writer *w;

	set_up();
	w = event_begin(&e, rig.log, EVENT_EXEC_STARTED, "prj_1", SANDBOX);
	for (int i = 0; i < 1000; i++)
		json_put_str(w, "again", "and again");
	event_end(&e);
	turn();
	x = export_all(&everything);
	CHECK_INT(x.n, 1);
	CHECK(strstr(x.text, "\"data\":{\"truncated\":true}") != NULL);
	tear_down();
}

TEST(a_disk_that_takes_nothing_leaves_the_chain_whole_and_what_waits_bounded)
{
	struct export x;

	set_up();
	close_log();
	run_sql("CREATE TRIGGER full BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'no'); END");
	open_log();
	for (int i = 0; i < 5000; i++)
		add(EVENT_SANDBOX_CREATED, "prj_1", SANDBOX);
	turn();
	CHECK_INT(chain("prj_1").head_seq, 0);
	CHECK_INT(status().lost, 5000 - 4096);
	close_log();
	run_sql("DROP TRIGGER full");
	open_log();
	add(EVENT_SANDBOX_CREATED, "prj_1", SANDBOX);
	turn();
	x = export_all(&everything);
	CHECK_INT(x.n, 1);
	CHECK_INT(x.last_seq, 1);
	tear_down();
}

TEST(a_filter_by_project_sandbox_and_type_gives_only_those)
{
	struct event_filter filter = {.project_id = "prj_2"};

	set_up();
	add(EVENT_DAEMON_STARTED, NULL, NULL);
	add(EVENT_EXEC_STARTED, "prj_1", SANDBOX);
	add(EVENT_EXEC_EXITED, "prj_1", SANDBOX);
	add(EVENT_EXEC_STARTED, "prj_2", OTHER);
	turn();
	CHECK_INT(export_all(&filter).n, 1);
	filter = (struct event_filter){.sandbox_id = SANDBOX};
	CHECK_INT(export_all(&filter).n, 2);
	CHECK_INT(event_types_parse("exec.exited,daemon", "type", &filter.types, NULL), 0);
	CHECK_INT(export_all(&filter).n, 1);
	filter.sandbox_id = NULL;
	CHECK_INT(export_all(&filter).n, 2);
	tear_down();
}

TEST(an_unknown_type_is_named)
{
	struct err err = {0};
	uint64_t types = 0;

	CHECK(event_types_parse("exec,nothing", "type", &types, &err) < 0);
	CHECK_STR(err.message, "type: 'nothing' is not a type of event");
	CHECK(event_types_parse("", "type", &types, &err) < 0);
	CHECK(event_types_parse("exec.", "type", &types, &err) < 0);
	CHECK_INT(event_types_parse("sandbox", "type", &types, &err), 0);
	CHECK(types & BIT64(EVENT_SANDBOX_ENDED));
	CHECK(!(types & BIT64(EVENT_EXEC_EXITED)));
}

static void count_call(void *arg)
{
	(*(int *)arg)++;
}

static int put_project(void *arg, struct err *err)
{
	struct project_row row = {.id = "prj_aaaaaaaaaaaaaaaaaaaaaaaaaa", .name = "saved"};
	int *calls = arg;

	return ++*calls == 1 ? store_put_project(rig.store, &row, err)
	                     : err_set(err, ERR_INTERNAL, EIO, "no disk");
}

TEST(what_an_entry_tells_of_is_saved_with_it_or_not_at_all)
{
	int calls = 0;

	set_up();
	add(EVENT_SANDBOX_CREATED, "prj_a", SANDBOX);
	CHECK_INT(event_log_save(rig.log, put_project, &calls, NULL), 0);
	CHECK_INT(chain("prj_a").head_seq, 1); /* at once, before the turn ends */
	add(EVENT_SANDBOX_ENDED, "prj_a", SANDBOX);
	CHECK_INT(event_log_save(rig.log, put_project, &calls, NULL), -EIO);
	CHECK_INT(calls, 3); /* with the entry, and alone */
	CHECK_INT(chain("prj_a").head_seq, 1);
	turn();
	CHECK_INT(chain("prj_a").head_seq, 2);
	CHECK_INT(export_all(&(struct event_filter){0}).r, 0);
	tear_down();
}

TEST(a_watch_is_told_once_a_turn_after_the_write)
{
	int calls = 0;
	struct event_watch w = {.fn = count_call, .arg = &calls};

	set_up();
	turn();
	event_watch_add(rig.log, &w);
	for (int i = 0; i < 10; i++)
		add(EVENT_SANDBOX_CREATED, "prj_1", SANDBOX);
	CHECK_INT(calls, 0);
	turn();
	CHECK_INT(calls, 1);
	event_watch_remove(&w);
	add(EVENT_SANDBOX_CREATED, "prj_1", SANDBOX);
	turn();
	CHECK_INT(calls, 1);
	tear_down();
}

TEST(lines_that_are_no_entries_are_refused)
{
	static const char *const lines[] = {
		"",
		"{}",
		"{\"seq\":1,\"hash\":\"00\"}",
		"{\"type\":\"gap\",\"after\":1,\"upto\":2}",
		"{\"seq\":99999999999999999999999,\"prev\":\"\",\"hash\":\"\"}",
		"{\"seq\":1,\"place\":7}",
		"{\"seq\":1,\"prev\":\"\",\"hash\":\"\",\"place\":}",
	};
	struct chain_link link;

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		CHECK(chain_check_line(lines[i], strlen(lines[i]), &link, NULL) < 0);
}

TEST(a_page_of_figures_is_what_prometheus_reads)
{
	auto_call(buf_done) struct buf page = BUF_INIT(4096);
	struct metrics m = {.out = &page};
	struct metric_label label = {"route", "/v1/\"a\\b\nc"};

	metrics_family(&m, "x_total", METRIC_COUNTER, "Some.");
	metrics_put(&m, "x_total", &label, 1, 7);
	metrics_family(&m, "y_seconds", METRIC_GAUGE, "Time.");
	metrics_put_seconds(&m, "y_seconds", NULL, 0, 1500042);
	CHECK_INT(m.error, 0);
	CHECK_STR(buf_str(&page), "# HELP x_total Some.\n"
	                          "# TYPE x_total counter\n"
	                          "x_total{route=\"/v1/\\\"a\\\\b\\nc\"} 7\n"
	                          "# HELP y_seconds Time.\n"
	                          "# TYPE y_seconds gauge\n"
	                          "y_seconds 1.500042\n");
}

TEST(a_histogram_counts_up_to_each_bound)
{
	auto_call(buf_done) struct buf page = BUF_INIT(4096);
	struct metrics m = {.out = &page};
	struct histogram h = {0};

	histogram_add(&h, 100);
	histogram_add(&h, 101);
	histogram_add(&h, 60000000);
	metrics_put_histogram(&m, "t", &h);
	CHECK(strstr(page.data, "t_bucket{le=\"0.000100\"} 1\n") != NULL);
	CHECK(strstr(page.data, "t_bucket{le=\"0.000250\"} 2\n") != NULL);
	CHECK(strstr(page.data, "t_bucket{le=\"30.000000\"} 2\n") != NULL);
	CHECK(strstr(page.data, "t_bucket{le=\"+Inf\"} 3\n") != NULL);
	CHECK(strstr(page.data, "t_sum 60.000201\nt_count 3\n") != NULL);
}
