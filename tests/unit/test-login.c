// SPDX-License-Identifier: Apache-2.0
#include "tenant/login.h"
#include "test.h"

#define NOW_US UINT64_C(1700000000000000)

static char dir[64], path[96];
static struct store *store;
static struct keyring *ring;
static struct logins *logins;

static void load(void)
{
	CHECK_INT(store_open(path, &store, NULL), 0);
	CHECK_INT(keyring_load(store, &ring, NULL), 0);
	CHECK_INT(logins_open(store, ring, &logins, NULL), 0);
}

static void unload(void)
{
	logins_free(logins);
	keyring_free(ring);
	store_close(store);
}

static void set_up(void)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/cloche-login-XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	(void)snprintf(path, sizeof(path), "%s/state.db", dir);
	load();
}

static void tear_down(void)
{
	unload();
	CHECK_INT(unlink(path), 0);
	CHECK_INT(rmdir(dir), 0);
}

static const struct key *add_key_of(const char *project)
{
	const struct key *key = NULL;
	char secret[48];

	CHECK_INT(keyring_add(ring, keyring_find_project(ring, project), "laptop", SCOPE_READ, 0,
	                      secret, &key, NULL),
	          0);
	return key;
}

static const struct key *add_key(void)
{
	return add_key_of("default");
}

static const struct key *check(const char *token, uint64_t now_us)
{
	uint64_t expires_us;

	return login_check(logins, token, now_us, &expires_us);
}

TEST(a_login_stands_for_its_key_for_a_day_and_over_a_restart)
{
	char token[LOGIN_TOKEN_SIZE], root[LOGIN_TOKEN_SIZE];
	const struct key *key;

	set_up();
	key = add_key();
	CHECK_INT(login_begin(logins, key, NOW_US, token, NULL), 0);
	CHECK_INT(login_begin(logins, keyring_root(ring), NOW_US, root, NULL), 0);
	CHECK_INT(strlen(token), LOGIN_TOKEN_SIZE - 1);
	CHECK(check(token, NOW_US) == key);
	CHECK(check(token, NOW_US + LOGIN_US - 1) == key);
	CHECK(check(token, NOW_US + LOGIN_US) == NULL);
	unload();
	load();
	CHECK_STR(key_name(check(token, NOW_US)), "laptop");
	CHECK(check(root, NOW_US) == keyring_root(ring));
	tear_down();
}

TEST(what_is_no_token_is_not_found)
{
	char token[LOGIN_TOKEN_SIZE], wrong[LOGIN_TOKEN_SIZE + 1];

	set_up();
	CHECK_INT(login_begin(logins, add_key(), NOW_US, token, NULL), 0);
	CHECK(check("", NOW_US) == NULL);
	(void)snprintf(wrong, sizeof(wrong), "%s0", token);
	CHECK(check(wrong, NOW_US) == NULL);
	(void)snprintf(wrong, sizeof(wrong), "%.63s", token);
	CHECK(check(wrong, NOW_US) == NULL);
	(void)snprintf(wrong, sizeof(wrong), "%s", token);
	wrong[0] = wrong[0] == '0' ? '1' : '0';
	CHECK(check(wrong, NOW_US) == NULL);
	CHECK(check(token, NOW_US) != NULL);
	tear_down();
}

TEST(a_login_ends_when_asked_to_and_with_its_key)
{
	char token[LOGIN_TOKEN_SIZE], other[LOGIN_TOKEN_SIZE];
	const struct key *key;

	set_up();
	key = add_key();
	CHECK_INT(login_begin(logins, key, NOW_US, token, NULL), 0);
	CHECK_INT(login_begin(logins, key, NOW_US, other, NULL), 0);
	CHECK_INT(login_end(logins, token, NULL), 0);
	CHECK_INT(login_end(logins, token, NULL), 0);
	CHECK(check(token, NOW_US) == NULL);
	CHECK(check(other, NOW_US) == key);
	CHECK_INT(keyring_revoke(ring, key_project_id(key), key_id(key), NULL), 0);
	CHECK(check(other, NOW_US) == NULL);
	unload();
	load();
	CHECK(check(token, NOW_US) == NULL);
	CHECK(check(other, NOW_US) == NULL);
	tear_down();
}

TEST(who_logs_in_often_ends_only_logins_of_its_own)
{
	char first[LOGIN_TOKEN_SIZE], others[LOGIN_TOKEN_SIZE], token[LOGIN_TOKEN_SIZE];
	const struct key *key, *other;

	set_up();
	key = add_key();
	other = add_key();
	CHECK_INT(login_begin(logins, other, NOW_US, others, NULL), 0);
	CHECK_INT(login_begin(logins, key, NOW_US, first, NULL), 0);
	for (uint64_t i = 1; i <= 16; i++)
		CHECK_INT(login_begin(logins, key, NOW_US + i, token, NULL), 0);
	CHECK(check(first, NOW_US) == NULL);
	CHECK(check(token, NOW_US) == key);
	CHECK(check(others, NOW_US) == other);
	tear_down();
}

/* As many as a greedy project can make: more than the tables hold. */
TEST(one_project_neither_keeps_others_out_nor_ends_what_they_have)
{
	char before[LOGIN_TOKEN_SIZE], link[LOGIN_TOKEN_SIZE], token[LOGIN_TOKEN_SIZE];
	const struct key *other;
	const char *project;

	set_up();
	CHECK_INT(keyring_add_project(ring, "other", &project, NULL), 0);
	other = add_key_of("other");
	CHECK_INT(login_begin(logins, other, 1, before, NULL), 0);
	link_make(logins, other, 1, link);
	for (int i = 0; i < 80; i++) {
		const struct key *key = add_key();

		for (uint64_t k = 0; k < 16; k++)
			CHECK_INT(login_begin(logins, key, 2 + k, token, NULL), 0);
		for (uint64_t k = 0; k < 4; k++)
			link_make(logins, key, 2 + k, token);
	}
	CHECK(check(before, 100) == other);
	CHECK_INT(login_begin(logins, other, 100, token, NULL), 0);
	CHECK(check(before, 100) == other);
	CHECK(check(token, 100) == other);
	CHECK(link_take(logins, link, 100) == other);
	tear_down();
}

TEST(a_link_is_good_once_and_for_a_short_time)
{
	char token[LOGIN_TOKEN_SIZE], late[LOGIN_TOKEN_SIZE], of_revoked[LOGIN_TOKEN_SIZE];
	const struct key *key, *revoked;

	set_up();
	key = add_key();
	revoked = add_key();
	link_make(logins, key, NOW_US, token);
	link_make(logins, key, NOW_US, late);
	link_make(logins, revoked, NOW_US, of_revoked);
	CHECK(check(token, NOW_US) == NULL); /* it is no login */
	CHECK(link_take(logins, token, NOW_US + 1) == key);
	CHECK(link_take(logins, token, NOW_US + 1) == NULL);
	CHECK(link_take(logins, late, NOW_US + LINK_US) == NULL);
	CHECK_INT(keyring_revoke(ring, key_project_id(revoked), key_id(revoked), NULL), 0);
	CHECK(link_take(logins, of_revoked, NOW_US) == NULL);
	link_make(logins, key, NOW_US, token);
	unload();
	load();
	CHECK(link_take(logins, token, NOW_US) == NULL);
	tear_down();
}
