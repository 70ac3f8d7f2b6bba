// SPDX-License-Identifier: Apache-2.0
#include "base/fd.h"
#include "tenant/key.h"
#include "test.h"

#include <fcntl.h>

static char dir[64], path[96];
static struct store *store;
static struct keyring *ring;

static void load(void)
{
	CHECK_INT(store_open(path, &store, NULL), 0);
	CHECK_INT(keyring_load(store, &ring, NULL), 0);
}

static void unload(void)
{
	keyring_free(ring);
	store_close(store);
}

static void set_up(void)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/cloche-key-XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	(void)snprintf(path, sizeof(path), "%s/state.db", dir);
	load();
}

static void tear_down(void)
{
	auto_free char *key = xasprintf("%s/admin.key", dir);

	unload();
	(void)unlink(key);
	CHECK_INT(unlink(path), 0);
	CHECK_INT(rmdir(dir), 0);
}

static const struct key *add(enum key_scope scope, char secret[48])
{
	const struct key *key = NULL;

	CHECK_INT(keyring_add(ring, keyring_find_project(ring, "default"), "laptop", scope, 0,
	                      secret, &key, NULL),
	          0);
	return key;
}

static int count_rows(const struct key_row *row, void *arg)
{
	(void)row;
	++*(size_t *)arg;
	return 0;
}

TEST(a_project_has_a_thousand_keys_at_most_and_revoked_ones_make_room)
{
	char secret[48];
	const char *project = NULL;
	const struct key *key = NULL;
	struct err err = {0};
	size_t n = 0;

	set_up();
	CHECK_INT(keyring_add_project(ring, "other", &project, NULL), 0);
	for (int i = 0; i < 1200; i++) {
		key = add(SCOPE_READ, secret);
		CHECK_INT(keyring_revoke(ring, keyring_find_project(ring, "default"), key_id(key),
		                         NULL),
		          0);
	}
	CHECK_INT(store_each_key(store, count_rows, &n, NULL), 0);
	CHECK_INT(n, 1000);
	for (int i = 0; i < 1000; i++)
		(void)add(SCOPE_READ, secret);
	CHECK(keyring_add(ring, keyring_find_project(ring, "default"), "one more", SCOPE_READ, 0,
	                  secret, &key, &err) < 0);
	CHECK_INT(err.code, ERR_LIMIT);
	CHECK_INT(keyring_add(ring, project, "another's", SCOPE_READ, 0, secret, &key, NULL), 0);
	tear_down();
}

TEST(a_key_is_found_under_both_prefixes_and_none)
{
	char secret[48], text[64];
	const struct key *key;

	set_up();
	key = add(SCOPE_WRITE, secret);
	CHECK_INT(strlen(secret), 44);
	CHECK(keyring_check(ring, secret) == key);
	CHECK(keyring_check(ring, secret + 4) == key);
	(void)snprintf(text, sizeof(text), "e2b_%s", secret + 4);
	CHECK(keyring_check(ring, text) == key);
	tear_down();
}

TEST(what_is_no_key_is_not_found)
{
	static const char *const wrong[] = {
		"",
		"clo_",
		"clo_0000000000000000000000000000000000000000",
		"clo_000000000000000000000000000000000000000",
		"clo_00000000000000000000000000000000000000000",
		"clo_ABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCD",
		"sk-_0000000000000000000000000000000000000000",
		"clo_e2b_000000000000000000000000000000000000",
		"clo_000000000000000000000000000000000000000\n",
	};
	char secret[48], longer[64];

	set_up();
	(void)add(SCOPE_ADMIN, secret);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		CHECK(keyring_check(ring, wrong[i]) == NULL);
	(void)snprintf(longer, sizeof(longer), "%s0", secret);
	CHECK(keyring_check(ring, longer) == NULL);
	secret[43] = secret[43] == '0' ? '1' : '0';
	CHECK(keyring_check(ring, secret) == NULL);
	tear_down();
}

TEST(keys_come_back_after_a_restart_and_revoked_ones_do_not)
{
	char kept[48], gone[48], id[64];
	const struct key *key;

	set_up();
	(void)add(SCOPE_READ, kept);
	key = add(SCOPE_ADMIN, gone);
	(void)snprintf(id, sizeof(id), "%s", key_id(key));
	CHECK_INT(keyring_revoke(ring, key_project_id(key), id, NULL), 0);
	CHECK(keyring_check(ring, gone) == NULL);
	unload();
	load();
	key = keyring_check(ring, kept);
	CHECK(key != NULL);
	CHECK_INT(key_scope(key), SCOPE_READ);
	CHECK_STR(key_name(key), "laptop");
	CHECK(keyring_check(ring, gone) == NULL);
	tear_down();
}

TEST(the_secret_is_nowhere_in_the_database)
{
	auto_free char *bytes = malloc(1 << 20);
	char secret[48];
	ssize_t n;
	int fd;

	set_up();
	(void)add(SCOPE_ADMIN, secret);
	unload();
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = read(fd, bytes, 1 << 20);
	(void)close(fd);
	CHECK(n > 4096);
	CHECK(memmem(bytes, (size_t)n, secret + 4, 40) == NULL);
	CHECK(memmem(bytes, (size_t)n, "laptop", 6) != NULL);
	load();
	tear_down();
}

TEST(another_project_cannot_revoke_a_key)
{
	const char *other;
	char secret[48];
	const struct key *key;
	struct err err = {0};

	set_up();
	key = add(SCOPE_ADMIN, secret);
	CHECK_INT(keyring_add_project(ring, "other", &other, NULL), 0);
	CHECK(keyring_revoke(ring, other, key_id(key), &err) < 0);
	CHECK_INT(err.code, ERR_NOT_FOUND);
	CHECK(keyring_check(ring, secret) == key);
	CHECK_STR(keyring_find_project(ring, "other"), other);
	CHECK_STR(keyring_find_project(ring, other), other);
	CHECK(keyring_add_project(ring, "other", &other, &err) < 0);
	CHECK_INT(err.code, ERR_CONFLICT);
	tear_down();
}

static void count(const struct key *key, void *arg)
{
	(void)key;
	(*(int *)arg)++;
}

TEST(the_first_key_is_written_once_and_opens_the_door)
{
	char text[64], again[64];
	auto_free char *name = NULL;
	int n = 0;
	int fd;

	set_up();
	name = xasprintf("%s/admin.key", dir);
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK_INT(write(fd, "an older and longer secret that must not shine through", 54), 54);
	CHECK_INT(keyring_ensure_admin(ring, fd, NULL), 0);
	CHECK_INT(fd_read_file(AT_FDCWD, name, text, sizeof(text)), 44);
	CHECK_INT(key_scope(keyring_check(ring, text)), SCOPE_ADMIN);
	CHECK_INT(keyring_ensure_admin(ring, fd, NULL), 0);
	CHECK(fd_read_file(AT_FDCWD, name, again, sizeof(again)) > 0);
	CHECK_STR(again, text);
	keyring_each(ring, keyring_find_project(ring, "default"), count, &n);
	CHECK_INT(n, 1);
	(void)close(fd);
	tear_down();
}

TEST(a_first_key_that_is_in_the_file_already_is_taken)
{
	static const char line[] = "clo_00112233445566778899aabbccddeeff00112233\n";
	char text[64];
	auto_free char *name = NULL;
	int fd;

	set_up();
	name = xasprintf("%s/admin.key", dir);
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK_INT(write(fd, line, sizeof(line) - 1), sizeof(line) - 1);
	CHECK_INT(keyring_ensure_admin(ring, fd, NULL), 0);
	CHECK(fd_read_file(AT_FDCWD, name, text, sizeof(text)) > 0);
	CHECK(strncmp(text, line, sizeof(line) - 2) == 0);
	CHECK_INT(key_scope(keyring_check(ring, "00112233445566778899aabbccddeeff00112233")),
	          SCOPE_ADMIN);
	(void)close(fd);
	tear_down();
}

TEST(a_key_as_json_has_no_secret)
{
	struct buf out = BUF_INIT(4096);
	struct json_writer w;
	char secret[48];

	set_up();
	json_writer_init(&w, &out);
	key_to_json(add(SCOPE_WRITE, secret), &w, NULL);
	CHECK_INT(json_writer_end(&w), 0);
	CHECK(strstr(buf_str(&out), "\"scope\":\"write\"") != NULL);
	CHECK(strstr(buf_str(&out), secret + 4) == NULL);
	buf_done(&out);
	tear_down();
}

TEST(names_of_keys_and_projects_are_bounded)
{
	const struct key *key;
	const char *id;
	char secret[48], name[80];
	struct err err = {0};

	set_up();
	memset(name, 'x', sizeof(name));
	name[65] = '\0';
	CHECK(keyring_add(ring, keyring_find_project(ring, "default"), name, SCOPE_READ, 0, secret,
	                  &key, &err) < 0);
	CHECK_STR(err.field, "name");
	CHECK(keyring_add_project(ring, "", &id, &err) < 0);
	CHECK(keyring_add_project(ring, "a\nb", &id, &err) < 0);
	CHECK(keyring_add(ring, "prj_none", "x", SCOPE_READ, 0, secret, &key, &err) < 0);
	CHECK_INT(err.code, ERR_NOT_FOUND);
	tear_down();
}

TEST(root_is_admin_of_the_default_project_and_has_no_secret)
{
	set_up();
	CHECK_INT(key_scope(keyring_root(ring)), SCOPE_ADMIN);
	CHECK_STR(key_project_id(keyring_root(ring)), keyring_find_project(ring, "default"));
	tear_down();
}
