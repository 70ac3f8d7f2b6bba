// SPDX-License-Identifier: Apache-2.0
/* Keys that sign tokens: they follow each other, and what one has signed outlives its turn. */
#include "base/log.h"
#include "identity/identity.h"
#include "store/tables/identity_keys.h"
#include "test.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OLD    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n"
#define NEW    "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100\n"
#define MINUTE UINT64_C(60000000)
#define DAY    (UINT64_C(1440) * MINUTE)
#define START  (UINT64_C(1800000000) * 1000000)

static struct {
	char dir[64], db[96];
	struct store *store;
	struct master_keys keys;
	struct key_set *set;
} rig;

static void open_with(const char *keys, uint64_t now_us)
{
	char text[256];

	(void)snprintf(text, sizeof(text), "%s", keys);
	CHECK_INT(master_keys_parse(text, "keys", &rig.keys, NULL), 0);
	CHECK_INT(store_open(rig.db, &rig.store, NULL), 0);
	CHECK_INT(key_set_open(rig.store, &rig.keys, now_us, &rig.set, NULL), 0);
}

static void close_all(void)
{
	key_set_close(rig.set);
	store_close(rig.store);
	master_keys_done(&rig.keys);
}

static void set_up(void)
{
	(void)snprintf(rig.dir, sizeof(rig.dir), "/tmp/test-identity.XXXXXX");
	CHECK(mkdtemp(rig.dir) != NULL);
	(void)snprintf(rig.db, sizeof(rig.db), "%s/db", rig.dir);
	open_with(OLD, START);
}

static void tear_down(void)
{
	close_all();
	CHECK_INT(unlink(rig.db), 0);
	CHECK_INT(rmdir(rig.dir), 0);
}

static void add(uint64_t now_us)
{
	struct signing_key *key;

	CHECK_INT(signing_key_make(&key), 0);
	CHECK_INT(key_set_add(rig.set, key, now_us, NULL), 0);
}

/* One that signs since then, and the next. */
static void fill(uint64_t now_us)
{
	add(now_us);
	CHECK_INT(key_set_promote(rig.set, now_us, NULL), 0);
	add(now_us);
}

static json_t *published(void)
{
	struct buf text = BUF_INIT(65536);
	struct json_writer w;
	json_t *value = NULL;

	json_writer_init(&w, &text);
	json_open_object(&w, NULL);
	key_set_put_public(rig.set, &w);
	json_close_object(&w);
	CHECK_INT(json_writer_end(&w), 0);
	CHECK_INT(json_parse(text.data, text.len, &value, NULL), 0);
	buf_done(&text);
	return value;
}

static bool is_published(const char *name)
{
	auto_json json_t *value = published();
	bool is_there = false;
	const json_t *key;
	size_t i;

	json_array_foreach(json_object_get(value, "keys"), i, key)
	{
		is_there |= strcmp(json_string_value(json_object_get(key, "kid")), name) == 0;
		CHECK(json_object_get(key, "d") == NULL);
	}
	return is_there;
}

static size_t count_published(void)
{
	auto_json json_t *value = published();

	return json_array_size(json_object_get(value, "keys"));
}

static void name_of_current(char ret[SIGNING_KEY_NAME_SIZE])
{
	(void)snprintf(ret, SIGNING_KEY_NAME_SIZE, "%s",
	               key_set_current(rig.set) ? signing_key_name(key_set_current(rig.set)) : "");
}

TEST(the_next_key_is_published_before_it_signs_and_the_last_one_until_its_tokens_are_over)
{
	char first[SIGNING_KEY_NAME_SIZE], second[SIGNING_KEY_NAME_SIZE];

	set_up();
	fill(START);
	name_of_current(first);
	CHECK_INT(count_published(), 2);
	CHECK_INT(key_set_promote(rig.set, START + DAY, NULL), 0);
	name_of_current(second);
	CHECK(strcmp(first, second) != 0);
	CHECK(is_published(first) && is_published(second));
	CHECK_INT(key_set_prune(rig.set, START + DAY + 64 * MINUTE, NULL), 0);
	CHECK(is_published(first));
	CHECK_INT(key_set_prune(rig.set, START + DAY + 65 * MINUTE, NULL), 0);
	CHECK(!is_published(first) && is_published(second));
	tear_down();
}

TEST(keys_are_the_same_after_a_restart_and_under_a_new_master_key)
{
	char before[SIGNING_KEY_NAME_SIZE], after[SIGNING_KEY_NAME_SIZE];

	set_up();
	fill(START);
	name_of_current(before);
	close_all();
	open_with(NEW OLD, START + MINUTE); /* seals them anew */
	close_all();
	open_with(NEW, START + 2 * MINUTE);
	name_of_current(after);
	CHECK_STR(before, after);
	CHECK(key_set_has_next(rig.set));
	CHECK_INT(key_set_lost(rig.set), 0);
	tear_down();
}

TEST(a_key_whose_master_key_is_lost_signs_no_more_and_its_tokens_still_verify)
{
	char lost[SIGNING_KEY_NAME_SIZE];

	set_up();
	fill(START);
	name_of_current(lost);
	close_all();
	open_with(NEW, START + MINUTE);
	CHECK_INT(key_set_lost(rig.set), 2);
	CHECK(key_set_current(rig.set) == NULL && !key_set_has_next(rig.set));
	CHECK(is_published(lost));
	CHECK_INT(count_published(), 1); /* the next one never signed */
	fill(START + MINUTE);
	CHECK_INT(count_published(), 3);
	tear_down();
}

TEST(a_row_with_another_public_half_is_not_used)
{
	const char *current;
	struct identity_key_row row = {.id = "", .sealed = "", .modulus = "AAAA", .created_us = 1};

	set_up();
	fill(START);
	current = signing_key_name(key_set_current(rig.set));
	row.id = current;
	row.sealed = "sealed:0011223344556677:AAAA:AAAA";
	row.active_us = START;
	CHECK_INT(store_put_identity_key(rig.store, &row, NULL), 0);
	close_all();
	open_with(OLD, START);
	CHECK_INT(key_set_lost(rig.set), 1);
	CHECK(key_set_current(rig.set) == NULL);
	tear_down();
}

TEST(a_kill_between_the_two_writes_of_a_rotation_leaves_one_that_signs)
{
	char first[SIGNING_KEY_NAME_SIZE], now[SIGNING_KEY_NAME_SIZE];
	sqlite3 *db;

	set_up();
	fill(START);
	name_of_current(first);
	CHECK_INT(key_set_promote(rig.set, START + DAY, NULL), 0);
	name_of_current(now);
	close_all();
	CHECK_INT(sqlite3_open(rig.db, &db), SQLITE_OK); /* as if the second were not made */
	CHECK_INT(sqlite3_exec(db, "UPDATE identity_keys SET retired_us = 0", NULL, NULL, NULL),
	          SQLITE_OK);
	CHECK_INT(sqlite3_close(db), SQLITE_OK);
	open_with(OLD, START + DAY);
	name_of_current(first);
	CHECK_STR(first, now);
	tear_down();
}

TEST(a_clock_that_was_ahead_once_neither_stops_rotation_nor_keeps_a_key_for_ever)
{
	char first[SIGNING_KEY_NAME_SIZE];

	set_up();
	fill(START + 9000 * DAY);
	CHECK(!key_set_is_due(rig.set, START, DAY));
	CHECK(key_set_is_due(rig.set, START + DAY, DAY)); /* counted from when it was right again */
	name_of_current(first);
	CHECK_INT(key_set_promote(rig.set, START + 9000 * DAY, NULL), 0);
	close_all();
	open_with(OLD, START + DAY);
	CHECK(is_published(first));
	CHECK_INT(key_set_prune(rig.set, START + DAY + 65 * MINUTE, NULL), 0);
	CHECK(!is_published(first));
	tear_down();
}

TEST(a_name_cannot_pass_for_two_parts_of_the_subject)
{
	const struct workload w = {
		.project = "a:template:b", .template = "c d", .grade = "process"};
	auto_free char *subject = token_subject(&w);

	CHECK_STR(subject, "project:a%3Atemplate%3Ab:template:c%20d:isolation:process");
}

TEST(the_url_of_an_issuer_is_one_that_clouds_take)
{
	static const char *const good[] = {"https://cloche.example.com", "https://example.com/a",
	                                   "http://127.0.0.1:7070", "http://[::1]:1",
	                                   "http://localhost"};
	static const char *const bad[] = {"http://example.com",
	                                  "https://example.com/",
	                                  "https://a.test/?x=1",
	                                  "example.com",
	                                  "",
	                                  "http://10.0.0.1",
	                                  "ftp://a.test"};
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		CHECK_INT(identity_check_issuer(good[i], "identity.issuer", &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK(identity_check_issuer(bad[i], "identity.issuer", &err) < 0);
		CHECK_STR(err.field, "identity.issuer");
	}
}

TEST(a_token_before_its_time_and_of_a_clock_at_zero_has_sane_times)
{
	const struct workload w = {.project_id = "p",
	                           .project = "p",
	                           .template = "t",
	                           .image = "",
	                           .snapshot_id = "",
	                           .engine = "jail",
	                           .grade = "process",
	                           .sandbox_id = "sb"};
	const struct token_terms terms = {.issuer = "https://a.test",
	                                  .audience = "x",
	                                  .id = "1",
	                                  .now_s = 5,
	                                  .lifetime_s = 600};
	struct buf out = BUF_INIT(TOKEN_SIZE_MAX);
	struct signing_key *key;

	CHECK_INT(signing_key_make(&key), 0);
	CHECK_INT(token_make(key, &w, &terms, &out), 0);
	CHECK(strlen(buf_str(&out)) > 400 && strspn(buf_str(&out), "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	                                                           "abcdefghijklmnopqrstuvwxyz"
	                                                           "0123456789-_.") == out.len);
	signing_key_free(key);
	buf_done(&out);
}
