// SPDX-License-Identifier: Apache-2.0
#include "secret/master_keys.h"

#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX 8192
#define DIGITS         (2 * MASTER_KEY_SIZE)
#define ID_DOMAIN      "cloche master key" /* so that an id is the hash of nothing else */

static void put_hex(const uint8_t *bytes, size_t n, char *ret)
{
	for (size_t i = 0; i < n; i++)
		(void)snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

static void make_id(const uint8_t key[MASTER_KEY_SIZE], char ret[MASTER_KEY_ID_SIZE])
{
	uint8_t text[sizeof(ID_DOMAIN) + MASTER_KEY_SIZE], hash[SHA256_DIGEST_LENGTH];

	memcpy(text, ID_DOMAIN, sizeof(ID_DOMAIN));
	memcpy(text + sizeof(ID_DOMAIN), key, MASTER_KEY_SIZE);
	(void)SHA256(text, sizeof(text), hash);
	put_hex(hash, MASTER_KEY_ID_SIZE / 2, ret);
	OPENSSL_cleanse(text, sizeof(text));
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int read_key(const char *line, uint8_t ret[MASTER_KEY_SIZE])
{
	if (strlen(line) != DIGITS)
		return -EINVAL;
	for (size_t i = 0; i < MASTER_KEY_SIZE; i++) {
		int high = digit(line[2 * i]), low = digit(line[2 * i + 1]);

		if (high < 0 || low < 0)
			return -EINVAL;
		ret[i] = (uint8_t)(high << 4 | low);
	}
	return 0;
}

static int refuse(const char *file, unsigned line, const char *why, struct err *err)
{
	(void)err_set(err, ERR_INTERNAL, 0, "the key file '%s', line %u: %s", file, line, why);
	return err_hint(err, "put the file back from your copy of it: without it the values of "
	                     "secrets cannot be read, and have to be set again");
}

int master_keys_parse(char *text, const char *file, struct master_keys *ret, struct err *err)
{
	char *rest = text, *line;
	unsigned number = 0;
	int r = 0;

	*ret = (struct master_keys){0};
	while (r == 0 && (line = strsep(&rest, "\n"))) {
		number++;
		line[strcspn(line, "\r")] = '\0';
		if (line[0] == '\0' || line[0] == '#')
			continue;
		if (ret->n == MASTER_KEYS_MAX)
			r = refuse(file, number, "there are too many keys", err);
		else if (read_key(line, ret->of[ret->n]) < 0)
			r = refuse(file, number, "a key is 64 hexadecimal digits", err);
		else
			make_id(ret->of[ret->n], ret->ids[ret->n]);
		ret->n += r == 0;
	}
	if (r == 0 && ret->n == 0)
		r = refuse(file, number, "there is no key in it", err);
	if (r < 0)
		master_keys_done(ret);
	return r;
}

/* It gets its name when it is complete and on disk. */
static int make_file(const char *path, struct err *err)
{
	auto_free char *new_path = xasprintf("%s.new", path);
	uint8_t key[MASTER_KEY_SIZE];
	char text[DIGITS + 2];
	int r = 0;
	auto_fd int fd =
		open(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	random_bytes(key, sizeof(key));
	put_hex(key, sizeof(key), text);
	text[DIGITS] = '\n';
	if (fd < 0 || write(fd, text, DIGITS + 1) != DIGITS + 1 || fsync(fd) < 0 ||
	    rename(new_path, path) < 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", path);
	OPENSSL_cleanse(key, sizeof(key));
	OPENSSL_cleanse(text, sizeof(text));
	if (r == 0)
		log_info("secret.key_made", "file='%s'", path);
	return r;
}

static int read_file(const char *path, char text[FILE_BYTES_MAX], struct err *err)
{
	auto_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot read the key file '%s'", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return refuse(path, 0, "it is not a file", err);
	n = read(fd, text, FILE_BYTES_MAX - 1);
	if (n < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot read the key file '%s'", path);
	text[n] = '\0';
	return 0;
}

int master_keys_read(const char *path, bool is_made, struct master_keys *ret, struct err *err)
{
	char text[FILE_BYTES_MAX];
	int r = 0;

	if (is_made && access(path, F_OK) < 0 && errno == ENOENT)
		r = make_file(path, err);
	if (r == 0)
		r = read_file(path, text, err);
	if (r == 0)
		r = master_keys_parse(text, path, ret, err);
	OPENSSL_cleanse(text, sizeof(text));
	return r;
}

void master_keys_of_one(const uint8_t key[MASTER_KEY_SIZE], struct master_keys *ret)
{
	*ret = (struct master_keys){.n = 1};
	memcpy(ret->of[0], key, MASTER_KEY_SIZE);
	make_id(key, ret->ids[0]);
}

const uint8_t *master_keys_find(const struct master_keys *keys, const char *id)
{
	for (size_t i = 0; i < keys->n; i++)
		if (strcmp(keys->ids[i], id) == 0)
			return keys->of[i];
	return NULL;
}

void master_keys_done(struct master_keys *keys)
{
	OPENSSL_cleanse(keys, sizeof(*keys));
}
