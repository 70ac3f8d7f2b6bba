// SPDX-License-Identifier: Apache-2.0
/*
 * All logins are in memory; each change is also written to the store. They are few, so a look-up
 * compares all of them, each in constant time.
 *
 * All projects share both tables. When one is full, the project with the most rows loses its oldest
 * one. So a project cannot keep others out, or end their logins, as long as they have fewer.
 */
#include "tenant/login.h"

#include "base/id.h"
#include "store/tables/logins.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define TOKEN_BYTES    32
#define LOGINS_MAX     1024
#define LOGINS_PER_KEY 16 /* so that frequent logins do not end those of others */
#define LINKS_MAX      64

struct pass {
	struct digest hash;
	char project_id[ID_SIZE], key_id[ID_SIZE];
	uint64_t expires_us; /* 0: a free row */
};

struct logins {
	struct store *store;
	struct keyring *ring;
	struct pass logins[LOGINS_MAX]; /* no two with one hash */
	struct pass links[LINKS_MAX];
};

DEFINE_FREEP(struct logins, logins_free)

static void hash_token(const char *token, struct digest *ret)
{
	if (EVP_Digest(token, strlen(token), ret->bytes, NULL, EVP_sha256(), NULL) != 1)
		abort(); /* only on no memory */
}

static void make_token(char token[LOGIN_TOKEN_SIZE])
{
	unsigned char raw[TOKEN_BYTES];

	random_bytes(raw, sizeof(raw));
	for (size_t i = 0; i < sizeof(raw); i++)
		(void)snprintf(token + i * 2, 3, "%02x", raw[i]);
	OPENSSL_cleanse(raw, sizeof(raw));
}

static void pass_fill(struct pass *p, const struct digest *hash, const char *project_id,
                      const char *key_id, uint64_t expires_us)
{
	p->hash = *hash;
	(void)snprintf(p->project_id, sizeof(p->project_id), "%s", project_id);
	(void)snprintf(p->key_id, sizeof(p->key_id), "%s", key_id);
	p->expires_us = expires_us;
}

/* The key, if it still exists. */
static const struct key *pass_key(const struct logins *l, const struct pass *p)
{
	if (p->key_id[0] == '\0')
		return keyring_root(l->ring);
	return keyring_find_key(l->ring, p->project_id, p->key_id);
}

static bool is_good(const struct logins *l, const struct pass *p, uint64_t now_us)
{
	return p->expires_us > now_us && pass_key(l, p);
}

static struct pass *find(struct pass *rows, size_t n, const char *token)
{
	struct digest hash;

	if (strspn(token, "0123456789abcdef") != LOGIN_TOKEN_SIZE - 1 ||
	    token[LOGIN_TOKEN_SIZE - 1] != '\0')
		return NULL;
	hash_token(token, &hash);
	for (size_t i = 0; i < n; i++)
		if (rows[i].expires_us != 0 &&
		    CRYPTO_memcmp(&rows[i].hash, &hash, sizeof(hash)) == 0)
			return &rows[i];
	return NULL;
}

static size_t count_of(const struct pass *rows, size_t n, const char *project_id)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += rows[i].expires_us != 0 && strcmp(rows[i].project_id, project_id) == 0;
	return count;
}

/* A free row, else the oldest row of the project with the most; the caller's own project goes first
 * among equals. */
static struct pass *row_for(struct pass *rows, size_t n, const char *project_id)
{
	struct pass *found = &rows[0];
	const char *greedy = project_id;
	size_t most = count_of(rows, n, project_id);

	for (size_t i = 0; i < n; i++) {
		size_t count;

		if (rows[i].expires_us == 0)
			return &rows[i];
		if (strcmp(rows[i].project_id, greedy) == 0)
			continue; /* was counted */
		count = count_of(rows, n, rows[i].project_id);
		if (count > most) {
			most = count;
			greedy = rows[i].project_id;
		}
	}
	for (size_t i = 0; i < n; i++)
		if (strcmp(rows[i].project_id, greedy) == 0 &&
		    (strcmp(found->project_id, greedy) != 0 ||
		     rows[i].expires_us < found->expires_us))
			found = &rows[i];
	return found;
}

static void load(const struct login_row *row, void *arg)
{
	struct logins *l = arg;

	for (size_t i = 0; i < LOGINS_MAX; i++)
		if (l->logins[i].expires_us == 0) {
			pass_fill(&l->logins[i], &row->hash, row->project_id, row->key_id,
			          row->expires_us);
			return;
		}
}

int logins_open(struct store *store, struct keyring *ring, struct logins **ret, struct err *err)
{
	auto_call(logins_freep) struct logins *l = xnew0(struct logins);
	int r;

	l->store = store;
	l->ring = ring;
	r = store_each_login(store, load, l, err);
	if (r < 0)
		return r;
	*ret = take_ptr(l);
	return 0;
}

void logins_free(struct logins *l)
{
	free(l);
}

static int forget(struct logins *l, struct pass *p, struct err *err)
{
	int r = store_delete_login(l->store, &p->hash, err);

	if (r == 0)
		*p = (struct pass){0};
	return r;
}

/* Forgets logins whose key is gone or that have ended, and the key's oldest one if it has too
 * many. */
static int make_room(struct logins *l, const struct key *key, uint64_t now_us, struct err *err)
{
	struct pass *oldest = NULL;
	unsigned n = 0;

	for (size_t i = 0; i < LOGINS_MAX; i++) {
		struct pass *p = &l->logins[i];

		if (p->expires_us == 0)
			continue;
		if (!is_good(l, p, now_us)) {
			int r = forget(l, p, err);

			if (r < 0)
				return r;
		} else if (strcmp(p->key_id, key_id(key)) == 0) {
			n++;
			if (!oldest || p->expires_us < oldest->expires_us)
				oldest = p;
		}
	}
	return n >= LOGINS_PER_KEY ? forget(l, oldest, err) : 0;
}

int login_begin(struct logins *l, const struct key *key, uint64_t now_us,
                char ret_token[LOGIN_TOKEN_SIZE], struct err *err)
{
	struct login_row row = {.project_id = key_project_id(key),
	                        .key_id = key_id(key),
	                        .created_us = now_us,
	                        .expires_us = now_us + LOGIN_US};
	struct pass *free_row;
	int r = make_room(l, key, now_us, err);

	if (r < 0)
		return r;
	free_row = row_for(l->logins, LOGINS_MAX, key_project_id(key));
	if (free_row->expires_us != 0)
		r = forget(l, free_row, err);
	if (r < 0)
		return r;
	make_token(ret_token);
	hash_token(ret_token, &row.hash);
	r = store_put_login(l->store, &row, err);
	if (r == 0)
		pass_fill(free_row, &row.hash, row.project_id, row.key_id, row.expires_us);
	return r;
}

const struct key *login_check(const struct logins *l, const char *token, uint64_t now_us,
                              uint64_t *ret_expires_us)
{
	const struct pass *p = find(unconst(l->logins), LOGINS_MAX, token);

	if (!p || !is_good(l, p, now_us))
		return NULL;
	*ret_expires_us = p->expires_us;
	return pass_key(l, p);
}

int login_end(struct logins *l, const char *token, struct err *err)
{
	struct pass *p = find(l->logins, LOGINS_MAX, token);

	return p ? forget(l, p, err) : 0;
}

void link_make(struct logins *l, const struct key *key, uint64_t now_us,
               char ret_token[LOGIN_TOKEN_SIZE])
{
	struct pass *row;
	struct digest hash;

	for (size_t i = 0; i < LINKS_MAX; i++)
		if (l->links[i].expires_us <= now_us)
			l->links[i] = (struct pass){0};
	row = row_for(l->links, LINKS_MAX, key_project_id(key));
	make_token(ret_token);
	hash_token(ret_token, &hash);
	pass_fill(row, &hash, key_project_id(key), key_id(key), now_us + LINK_US);
}

const struct key *link_take(struct logins *l, const char *token, uint64_t now_us)
{
	struct pass *p = find(l->links, LINKS_MAX, token);
	const struct key *key = p && is_good(l, p, now_us) ? pass_key(l, p) : NULL;

	if (p)
		*p = (struct pass){0};
	return key;
}
