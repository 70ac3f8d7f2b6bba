// SPDX-License-Identifier: Apache-2.0
#include "build/parcel.h"

#include "base/fd.h"
#include "base/fs/dir_reader.h"
#include "build/build_private.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX       "parcel_"
#define HALF         ".new"
#define NAME_SIZE    (sizeof(PREFIX) + ID_SIZE + PARCEL_HASH_LEN + sizeof(HALF))
#define ALL_BYTES    (4 * PARCEL_BYTES_MAX)
#define EXPECTED_MAX 64 /* of one project: its oldest gives way */

struct expected {
	struct list link;
	char project_id[ID_SIZE], key_id[ID_SIZE], hash[PARCEL_HASH_LEN + 1], token[ID_SIZE];
};

struct parcel_in {
	struct builds *owner;
	int fd;
	uint64_t bytes; /* that came, all of them in the room */
	char project_id[ID_SIZE], hash[PARCEL_HASH_LEN + 1], half[NAME_SIZE];
	EVP_MD_CTX *hashing; /* NULL: the hash was announced */
};

bool parcel_is_hash(const char *text)
{
	return strspn(text, "0123456789abcdef") == PARCEL_HASH_LEN && !text[PARCEL_HASH_LEN];
}

static void make_name(const char *project_id, const char *hash, char ret[NAME_SIZE])
{
	(void)snprintf(ret, NAME_SIZE, PREFIX "%s_%s", project_id, hash);
}

bool parcel_has(const struct builds *bs, const char *project_id, const char *hash)
{
	char name[NAME_SIZE];
	struct stat st;

	make_name(project_id, hash, name);
	return fstatat(bs->log_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void expected_free(struct expected *e)
{
	list_remove(&e->link);
	free(e);
}

void parcel_expect(struct builds *bs, const char *project_id, const char *key_id, const char *hash,
                   char ret_token[ID_SIZE])
{
	struct expected *e = xnew0(struct expected);
	size_t n = 0;

	id_make(e->token, "pcl");
	(void)snprintf(e->project_id, sizeof(e->project_id), "%s", project_id);
	(void)snprintf(e->key_id, sizeof(e->key_id), "%s", key_id);
	(void)snprintf(e->hash, sizeof(e->hash), "%s", hash);
	list_append(&bs->parcels, &e->link);
	memcpy(ret_token, e->token, sizeof(e->token));
	list_for_each (&bs->parcels, struct expected, other, link)
		n += strcmp(other->project_id, project_id) == 0;
	list_for_each (&bs->parcels, struct expected, oldest, link)
		if (strcmp(oldest->project_id, project_id) == 0 && n-- > EXPECTED_MAX)
			expected_free(oldest);
}

/* Calls fn with each file of ours, its size and age. */
static void each_file(const struct builds *bs,
                      void (*fn)(int dir_fd, const char *name, const struct stat *st, void *arg),
                      void *arg)
{
	auto_fd int fd = openat(bs->log_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dir_reader d;
	const char *name;
	struct stat st;

	if (fd < 0 || dir_begin(&d, fd) < 0)
		return;
	while ((name = dir_next(&d)))
		if (strncmp(name, PREFIX, strlen(PREFIX)) == 0 &&
		    fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			fn(fd, name, &st, arg);
	dir_tell(&d, "parts of builds");
}

static bool is_half(const char *name)
{
	size_t len = strlen(name);

	return len > strlen(HALF) && strcmp(name + len - strlen(HALF), HALF) == 0;
}

struct kept {
	char name[NAME_SIZE];
	uint64_t bytes;
	int64_t at_s;
};

struct kept_list {
	struct kept *items; /* whole ones */
	size_t n;
	uint64_t bytes; /* of all, half ones too */
};

static void keep(int dir_fd, const char *name, const struct stat *st, void *arg)
{
	struct kept_list *list = arg;
	size_t len = strlen(name);
	struct kept *one;

	(void)dir_fd;
	list->bytes += (uint64_t)st->st_size;
	if (is_half(name) || len >= NAME_SIZE || len <= PARCEL_HASH_LEN)
		return;
	list->items = xrealloc(list->items, (list->n + 1) * sizeof(*list->items));
	one = &list->items[list->n++];
	*one = (struct kept){.bytes = (uint64_t)st->st_size, .at_s = st->st_mtim.tv_sec};
	memcpy(one->name, name, len + 1);
}

/* Compares names without their hash: those of one project are equal. */
static int compare_projects(const struct kept *a, const struct kept *b)
{
	size_t len_a = strlen(a->name) - PARCEL_HASH_LEN, len_b = strlen(b->name) - PARCEL_HASH_LEN;

	return len_a != len_b ? (len_a > len_b) - (len_a < len_b) : memcmp(a->name, b->name, len_a);
}

/* Sorts by project, the oldest first. */
static int compare_kept(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;
	int by_project = compare_projects(x, y);

	return by_project ? by_project : (x->at_s > y->at_s) - (x->at_s < y->at_s);
}

/* The oldest parcel of the project that has the most; the list is sorted, and removed ones have no
 * bytes. */
static struct kept *find_oldest(const struct kept_list *list)
{
	struct kept *found = NULL;
	uint64_t most = 0;

	for (size_t i = 0, end; i < list->n; i = end) {
		struct kept *oldest = NULL;
		uint64_t bytes = 0;

		for (end = i;
		     end < list->n && compare_projects(&list->items[i], &list->items[end]) == 0;
		     end++) {
			bytes += list->items[end].bytes;
			if (!oldest && list->items[end].bytes > 0)
				oldest = &list->items[end];
		}
		if (bytes <= most)
			continue;
		most = bytes;
		found = oldest;
	}
	return found;
}

/* The project that keeps the most loses its oldest, so that nobody loses parcels because others
 * send many. */
static void make_room(const struct builds *bs)
{
	struct kept_list list = {0};
	struct kept *one;

	each_file(bs, keep, &list);
	if (list.n > 0)
		qsort(list.items, list.n, sizeof(*list.items), compare_kept);
	while (list.bytes + PARCEL_BYTES_MAX > ALL_BYTES && (one = find_oldest(&list)) &&
	       unlinkat(bs->log_fd, one->name, 0) == 0) {
		list.bytes -= one->bytes;
		one->bytes = 0;
	}
	free(list.items);
}

static struct expected *find_expected(const struct builds *bs, const char *token)
{
	size_t len = strlen(token);

	list_for_each (&bs->parcels, struct expected, e, link)
		if (len == strlen(e->token) && CRYPTO_memcmp(e->token, token, len) == 0)
			return e;
	return NULL;
}

bool parcel_owner(const struct builds *bs, const char *token, char ret_project_id[ID_SIZE],
                  char ret_key_id[ID_SIZE])
{
	const struct expected *e = find_expected(bs, token);

	if (!e)
		return false;
	memcpy(ret_project_id, e->project_id, ID_SIZE);
	memcpy(ret_key_id, e->key_id, ID_SIZE);
	return true;
}

/* token: of the half file's name. */
static int begin(struct builds *bs, const char *project_id, const char *token,
                 struct parcel_in **ret, struct err *err)
{
	struct parcel_in *in;

	make_room(bs);
	in = xnew0(struct parcel_in);
	in->owner = bs;
	(void)snprintf(in->project_id, sizeof(in->project_id), "%s", project_id);
	(void)snprintf(in->half, sizeof(in->half), PREFIX "%s" HALF, token);
	in->fd = openat(bs->log_fd, in->half, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (in->fd < 0) {
		free(in);
		return err_set(err, ERR_INTERNAL, errno, "cannot keep the files of a build");
	}
	*ret = in;
	return 0;
}

int parcel_begin(struct builds *bs, const char *token, struct parcel_in **ret, struct err *err)
{
	struct expected *e = find_expected(bs, token);
	int r;

	if (!e)
		return err_set(err, ERR_NOT_FOUND, 0,
		               "nobody expects these files any more: build once more");
	r = begin(bs, e->project_id, e->token, ret, err);
	if (r < 0)
		return r;
	memcpy((*ret)->hash, e->hash, sizeof(e->hash));
	expected_free(e);
	return 0;
}

int parcel_begin_own(struct builds *bs, const char *project_id, struct parcel_in **ret,
                     struct err *err)
{
	char token[ID_SIZE];
	int r;

	id_make(token, "pcl");
	r = begin(bs, project_id, token, ret, err);
	if (r < 0)
		return r;
	(*ret)->hashing = EVP_MD_CTX_new();
	if (!(*ret)->hashing || EVP_DigestInit_ex((*ret)->hashing, EVP_sha256(), NULL) != 1)
		abort(); /* no memory */
	return 0;
}

int parcel_begin_named(struct builds *bs, const char *project_id, const char *hash,
                       struct parcel_in **ret, struct err *err)
{
	char token[ID_SIZE];
	int r;

	id_make(token, "pcl");
	r = begin(bs, project_id, token, ret, err);
	if (r == 0)
		(void)snprintf((*ret)->hash, sizeof((*ret)->hash), "%s", hash);
	return r;
}

int parcel_write(struct parcel_in *in, const void *data, size_t len, struct err *err)
{
	if (len > PARCEL_BYTES_MAX - in->bytes)
		return err_set(err, ERR_TOO_LARGE, 0, "files of one step have at most %u MiB",
		               (unsigned)(PARCEL_BYTES_MAX >> 20));
	if (!fair_room_take(&in->owner->parcel_room, in->project_id, len))
		return err_set(err, ERR_LIMIT, 0,
		               "more files for builds come at once than there is room for");
	in->bytes += len;
	if (in->hashing && EVP_DigestUpdate(in->hashing, data, len) != 1)
		abort(); /* it cannot fail */
	if (fd_write_all(in->fd, data, len) < 0)
		return err_set(err, errno == ENOSPC ? ERR_HOST_DISK_FULL : ERR_INTERNAL, errno,
		               "cannot keep the files of a build");
	return 0;
}

void parcel_drop(struct parcel_in *in)
{
	if (!in)
		return;
	fair_room_give(&in->owner->parcel_room, in->project_id, in->bytes);
	(void)close(in->fd);
	EVP_MD_CTX_free(in->hashing);
	(void)unlinkat(in->owner->log_fd, in->half, 0); /* of a whole one there is none */
	free(in);
}

int parcel_finish(struct parcel_in *in, char ret_hash[PARCEL_HASH_LEN + 1], struct err *err)
{
	char name[NAME_SIZE];
	struct digest hash;
	int r = 0;

	if (in->hashing) {
		if (EVP_DigestFinal_ex(in->hashing, hash.bytes, NULL) != 1)
			abort(); /* it cannot fail */
		digest_to_hex(&hash, in->hash);
	}
	memcpy(ret_hash, in->hash, sizeof(in->hash));
	make_name(in->project_id, in->hash, name);
	if (renameat(in->owner->log_fd, in->half, in->owner->log_fd, name) < 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot keep the files of a build");
	parcel_drop(in);
	return r;
}

int parcel_open(const struct builds *bs, const char *project_id, const char *hash, bool *ret_gzip,
                struct err *err)
{
	unsigned char magic[2] = {0};
	char name[NAME_SIZE];
	int fd;

	make_name(project_id, hash, name);
	fd = openat(bs->log_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		(void)err_set(err, ERR_NOT_FOUND, 0, "files that the build copies were not sent");
		return err_hint(err, "build once more: they are sent then");
	}
	*ret_gzip = pread(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
	            magic[0] == 0x1f && magic[1] == 0x8b;
	return fd;
}

static void remove_half(int dir_fd, const char *name, const struct stat *st, void *arg)
{
	(void)st;
	(void)arg;
	if (is_half(name))
		(void)unlinkat(dir_fd, name, 0);
}

void parcels_settle(struct builds *bs)
{
	each_file(bs, remove_half, NULL);
}

void parcels_close(struct builds *bs)
{
	list_for_each (&bs->parcels, struct expected, e, link)
		expected_free(e);
}
