// SPDX-License-Identifier: Apache-2.0
/* Secrets: sealed under keys that change, opened for their owner alone. */
#include "base/id.h"
#include "base/log.h"
#include "base/parse.h"
#include "net/policy/secret_reference.h"
#include "secret/secret_shared.h"
#include "store/tables/secrets.h"
#include "test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROJECT "prj_1"
#define OLD     "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n"
#define NEW                                                                                        \
	"# the new one\r\n\nFFEEDDCCBBAA99887766554433221100ffeeddccbbaa99887766554433221100\r\n"

static struct {
	char dir[64], db[96];
	struct store *store;
	struct master_keys keys;
	struct secrets *secrets;
} rig;

static void open_with(const char *keys)
{
	char text[512];

	(void)snprintf(text, sizeof(text), "%s", keys);
	CHECK_INT(master_keys_parse(text, "keys", &rig.keys, NULL), 0);
	CHECK_INT(store_open(rig.db, &rig.store, NULL), 0);
	CHECK_INT(secrets_open(&(struct secrets_config){.store = rig.store, .keys = &rig.keys},
	                       &rig.secrets, NULL),
	          0);
}

static void close_all(void)
{
	secrets_close(rig.secrets);
	store_close(rig.store);
	master_keys_done(&rig.keys);
}

static void set_up(void)
{
	(void)snprintf(rig.dir, sizeof(rig.dir), "/tmp/test-secret.XXXXXX");
	CHECK(mkdtemp(rig.dir) != NULL);
	(void)snprintf(rig.db, sizeof(rig.db), "%s/db", rig.dir);
	CHECK_INT(store_open(rig.db, &rig.store, NULL), 0);
	CHECK_INT(store_put_project(rig.store, &(struct project_row){.id = PROJECT, .name = "p"},
	                            NULL),
	          0);
	store_close(rig.store);
	open_with(OLD);
}

static void tear_down(void)
{
	close_all();
	CHECK_INT(unlink(rig.db), 0);
	CHECK_INT(rmdir(rig.dir), 0);
}

static int set(const char *name, const char *value)
{
	const struct secret *s;
	struct err err;
	bool is_new;

	return secrets_set(rig.secrets, PROJECT, name, value, strlen(value), NULL, &s, &is_new,
	                   &err);
}

static bool is_value(const char *name, const char *value)
{
	char is[ENVELOPE_VALUE_MAX + 1];
	struct err err;
	ssize_t n = secrets_reveal(rig.secrets, PROJECT, name, is, &err);

	return n == (ssize_t)strlen(value) && memcmp(is, value, (size_t)n) == 0;
}

TEST(a_value_comes_back_as_it_was_set_and_over_a_restart)
{
	static char longest[ENVELOPE_VALUE_MAX + 2];

	set_up();
	memset(longest, 'x', ENVELOPE_VALUE_MAX);
	CHECK_INT(set("A", "first"), 0);
	CHECK_INT(set("B", longest), 0);
	CHECK_INT(set("A", "second"), 0);
	CHECK(is_value("A", "second") && is_value("B", longest));
	longest[ENVELOPE_VALUE_MAX] = 'x';
	CHECK(set("B", longest) < 0 && set("C", "") < 0 && set("1C", "x") < 0 &&
	      set("C.C", "x") < 0);
	longest[ENVELOPE_VALUE_MAX] = '\0';
	close_all();
	open_with(OLD);
	CHECK(is_value("A", "second") && is_value("B", longest));
	CHECK_INT(secrets_remove(rig.secrets, PROJECT, "A", NULL), 0);
	CHECK(!is_value("A", "second") && secrets_remove(rig.secrets, PROJECT, "A", NULL) < 0);
	CHECK(secrets_find(rig.secrets, "prj_2", "B") == NULL);
	tear_down();
}

static bool opens(const char *sealed, const char *label, const char *value, bool is_stale)
{
	auto_call(sealed_text_wipe) char *text = NULL;
	bool stale = !is_stale;

	return sealed_text_open(&rig.keys, label, sealed, &text, &stale) == 0 &&
	       strcmp(text, value) == 0 && stale == is_stale;
}

TEST(a_sealed_text_opens_for_its_label_alone_and_is_stale_under_an_older_key)
{
	auto_free char *sealed = NULL, *cut = NULL;
	static char longest[64 * 1024];
	bool is_stale;
	char *text = NULL;

	set_up();
	memset(longest, 'x', sizeof(longest) - 1);
	sealed = sealed_text_make(&rig.keys, "webhook 1", longest, strlen(longest));
	CHECK(sealed && sealed_text_is(sealed) && !strstr(sealed, "xxxxxxxx"));
	CHECK(!sealed_text_is("whsec_sealed:") && !sealed_text_is(""));
	CHECK(opens(sealed, "webhook 1", longest, false));
	CHECK_INT(sealed_text_open(&rig.keys, "webhook 2", sealed, &text, &is_stale), -EBADMSG);
	cut = xstrndup(sealed, strlen(sealed) / 2);
	CHECK_INT(sealed_text_open(&rig.keys, "webhook 1", cut, &text, &is_stale), -EBADMSG);
	CHECK_INT(sealed_text_open(&rig.keys, "webhook 1", "sealed:", &text, &is_stale), -EBADMSG);
	close_all();
	open_with(NEW OLD);
	CHECK(opens(sealed, "webhook 1", longest, true));
	close_all();
	open_with(NEW);
	CHECK_INT(sealed_text_open(&rig.keys, "webhook 1", sealed, &text, &is_stale), -ENOKEY);
	CHECK(text == NULL);
	tear_down();
}

TEST(a_new_master_key_takes_over_at_the_next_start_and_the_old_one_can_go)
{
	set_up();
	CHECK_INT(set("A", "value"), 0);
	close_all();
	open_with(NEW OLD);
	CHECK(is_value("A", "value"));
	close_all();
	open_with(NEW);
	CHECK(is_value("A", "value"));
	close_all();
	open_with(OLD); /* the control: the old one opens nothing any more */
	CHECK(!is_value("A", "value"));
	CHECK(secret_is_locked(rig.secrets, secrets_find(rig.secrets, PROJECT, "A")));
	CHECK_INT(set("A", "again"), 0);
	CHECK(is_value("A", "again"));
	tear_down();
}

struct altered {
	struct secret_row row;
	char wrapped[512], sealed[512];
};

static int keep_row(const struct secret_row *row, void *arg)
{
	struct altered *a = arg;

	a->row = *row;
	(void)snprintf(a->wrapped, sizeof(a->wrapped), "%s", row->wrapped);
	(void)snprintf(a->sealed, sizeof(a->sealed), "%s", row->sealed);
	return 0;
}

/* Somebody who can write the database cannot have a value used under another name. */
static int take(const char *name, uint64_t version, const char *content)
{
	char id[ID_SIZE];
	struct err err;

	secret_record_id(PROJECT, name, id);
	return secrets_take(rig.secrets,
	                    &(struct secret_arrival){.record_id = id,
	                                             .project_id = PROJECT,
	                                             .version = version,
	                                             .changed_us = 7,
	                                             .content = content},
	                    &err);
}

TEST(what_one_node_drafts_another_takes_as_it_was)
{
	static char longest[ENVELOPE_VALUE_MAX + 1];
	auto_json json_t *hosts = json_pack("[s, s]", "api.example.com", "*.example.org");
	struct secret_wish wish = {.name = "A", .value = longest, .hosts = hosts};
	struct secret_facts facts;
	uint64_t version;
	char *content;

	set_up();
	memset(longest, '\n', ENVELOPE_VALUE_MAX);
	wish.len = ENVELOPE_VALUE_MAX;
	CHECK_INT(secrets_draft(rig.secrets, PROJECT, &wish, &content, &version, NULL), 0);
	CHECK_INT(version, 0);
	CHECK(secrets_find(rig.secrets, PROJECT, "A") == NULL); /* nothing was changed */
	CHECK_INT(take("A", 5, content), 0);
	CHECK(is_value("A", longest));
	secret_look(secrets_find(rig.secrets, PROJECT, "A"), &facts);
	CHECK_INT(facts.version, 5);
	CHECK(secret_is_bound(secrets_find(rig.secrets, PROJECT, "A")));
	sealed_text_wipe(&content);

	wish.value = "next";
	wish.len = 4;
	wish.hosts = NULL; /* as before */
	CHECK_INT(secrets_draft(rig.secrets, PROJECT, &wish, &content, &version, NULL), 0);
	CHECK_INT(version, 5);
	CHECK_INT(take("A", 6, content), 0);
	CHECK(is_value("A", "next") && secret_is_bound(secrets_find(rig.secrets, PROJECT, "A")));
	sealed_text_wipe(&content);
	close_all();
	open_with(OLD);
	CHECK(is_value("A", "next"));
	CHECK_INT(take("A", 7, NULL), 0);
	CHECK_INT(take("A", 8, NULL), 0); /* it is gone already */
	CHECK(secrets_find(rig.secrets, PROJECT, "A") == NULL);
	tear_down();
}

TEST(a_content_of_another_shape_is_refused)
{
#define WITH(id, name, hosts, value)                                                               \
	"{\"id\":\"" id "\",\"name\":\"" name "\",\"hosts\":\"" hosts "\",\"value\":\"" value      \
	"\",\"created_us\":5}"
#define ID "se_22222222222222222222222222"
	static const char *const wrong[] = {
		"",
		"7",
		"[]",
		"{}",
		"{\"id\":7,\"name\":{},\"hosts\":[],\"value\":null,\"created_us\":\"5\"}",
		WITH(ID, "B", "", "eA=="),          /* another's place */
		WITH("sb_x", "A", "", "eA=="),      /* no id of a secret */
		WITH(ID, "A", "https://x", "eA=="), /* no host */
		WITH(ID, "A", "", "e"),             /* no base64 */
		WITH(ID, "A", "", ""),              /* no value */
		WITH(ID, "A/B", "", "eA=="),        /* no name */
		"{\"id\":\"" ID
		"\",\"name\":\"A\",\"hosts\":\"\",\"value\":\"eA==\",\"created_us\":-1}",
	};
	static char long_value[2 * ENVELOPE_VALUE_MAX + 200];
	size_t n;

	set_up();
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		CHECK(take("A", 1, wrong[i]) < 0);
	n = (size_t)snprintf(long_value, sizeof(long_value),
	                     "{\"id\":\"" ID "\",\"name\":\"A\",\"hosts\":\"\",\"created_us\":5,"
	                     "\"value\":\"");
	memset(long_value + n, 'A', base64_size(ENVELOPE_VALUE_MAX) + 3);
	(void)snprintf(long_value + n + base64_size(ENVELOPE_VALUE_MAX) + 3, 3, "\"}");
	CHECK(take("A", 1, long_value) < 0);
	CHECK(secrets_find(rig.secrets, PROJECT, "A") == NULL);
	CHECK_INT(take("A", 1, WITH(ID, "A", "api.example.com", "eA==")), 0); /* the control */
	CHECK(is_value("A", "x"));
	CHECK(take("B", 1, WITH(ID, "B", "", "eA==")) < 0); /* the id is A's */
	CHECK(is_value("A", "x"));
	tear_down();
}

TEST(a_row_that_was_moved_or_changed_does_not_open)
{
	struct altered a;

	set_up();
	CHECK_INT(set("A", "value"), 0);
	CHECK_INT(store_each_secret(rig.store, keep_row, &a, NULL), 0);
	a.row.id = "se_other";
	a.row.project_id = PROJECT;
	a.row.key_id = rig.keys.ids[0];
	a.row.wrapped = a.wrapped;
	a.row.sealed = a.sealed;
	a.row.hosts = "";
	a.row.name = "B";
	CHECK_INT(store_put_secret(rig.store, &a.row, NULL), 0);
	a.row.id = "se_third";
	a.row.name = "C";
	a.row.sealed = "short";
	CHECK_INT(store_put_secret(rig.store, &a.row, NULL), 0);
	close_all();
	open_with(OLD);
	CHECK(is_value("A", "value"));
	CHECK(!is_value("B", "value") && !is_value("C", "value"));
	tear_down();
}

TEST(a_key_file_with_another_form_is_refused_with_its_line)
{
	static const char *const bad[] = {"", "# nothing\n", "abc\n", (OLD "xyz\n"), ("0" OLD)};
	struct master_keys keys;
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char text[512];

		(void)snprintf(text, sizeof(text), "%s", bad[i]);
		CHECK(master_keys_parse(text, "the-file", &keys, &err) < 0);
		CHECK(strstr(err.message, "the-file") && strstr(err.message, "line"));
	}
}

TEST(a_key_file_is_made_once_and_then_read)
{
	struct master_keys one, two;
	char path[96];

	(void)snprintf(path, sizeof(path), "/tmp/test-secret-key.%d", (int)getpid());
	CHECK(master_keys_read(path, false, &one, NULL) < 0);
	CHECK_INT(master_keys_read(path, true, &one, NULL), 0);
	CHECK_INT(master_keys_read(path, true, &two, NULL), 0);
	CHECK(one.n == 1 && memcmp(&one, &two, sizeof(one)) == 0);
	CHECK_INT(unlink(path), 0);
}

static int fill(const char *name, struct buf *out, void *arg)
{
	(void)arg;
	return strcmp(name, "NONE") == 0 ? -ENOENT : buf_printf(out, "<%s>", name);
}

TEST(references_are_found_filled_and_known_to_be_alone)
{
	static const struct {
		const char *text, *filled; /* NULL: it cannot be */
		bool is_alone;
	} rows[] = {
		{"plain", "plain", false},
		{"secret://A", "<A>", true},
		{"Bearer secret://A_b-9", "Bearer <A_b-9>", true},
		{"user:secret://A@host", "user:<A>@host", false},
		{"secret://A.secret://B", "<A>.<B>", false},
		{"hidden secret://A", "hidden <A>", false},
		{"sk-123 secret://A", "sk-123 <A>", false},
		{"secret://", NULL, false},
		{"secret://1", NULL, false},
		{"secret://NONE", NULL, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_call(buf_done) struct buf out = BUF_INIT(1024);
		int r = secret_reference_fill(rows[i].text, fill, NULL, &out);

		CHECK_INT(r < 0, rows[i].filled == NULL);
		if (r == 0)
			CHECK_STR(buf_str(&out), rows[i].filled);
		CHECK_INT(secret_reference_is_alone(rows[i].text), rows[i].is_alone);
	}
}
