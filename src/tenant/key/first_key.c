// SPDX-License-Identifier: Apache-2.0
/*
 * The first key of a daemon, whose secret is in the file admin.key: made with the first start, and
 * looked at in each later one.
 */
#include "base/fd.h"
#include "base/log.h"
#include "store/tables/keys.h"
#include "tenant/key/key_private.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int save_line(int fd, const char *line)
{
	int r;

	if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	r = fd_write_all(fd, line, strlen(line));
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	return r;
}

/* What stands in the file; "": nothing, or it cannot be read. */
static void read_secret(int fd, char ret[56])
{
	ssize_t n = pread(fd, ret, 55, 0);

	ret[n < 0 ? 0 : n] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
}

/*
 * A secret that is in the file already is taken: the operator has put it there, as on every node of
 * a cluster, or an earlier start died behind the write. The secret is written before the key is
 * recorded: the other order could lock everybody out.
 */
static int first_key(struct keyring *ring, int fd, struct err *err)
{
	struct key_row row = {
		.project_id = ring->root.project_id, .name = "admin", .scope = SCOPE_ADMIN};
	char secret[48], line[56];
	const struct key *key;
	bool is_given;
	int r;

	read_secret(fd, line);
	is_given = key_hash_secret(line, row.hash);
	if (line[0] && !is_given)
		log_warn("key.file_replaced", "file='admin.key' error='it held no key: 40 digits "
		                              "0-9a-f behind clo_'");
	OPENSSL_cleanse(line, sizeof(line));
	if (is_given)
		return key_add_hashed(ring, &row, &key, err);
	key_draw_secret(secret, row.hash);
	(void)snprintf(line, sizeof(line), "%s\n", secret);
	r = save_line(fd, line);
	OPENSSL_cleanse(secret, sizeof(secret));
	OPENSSL_cleanse(line, sizeof(line));
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot write the first key to 'admin.key'");
	return key_add_hashed(ring, &row, &key, err);
}

/* Warns if the file's secret opens nothing. An empty file is fine: its owner has moved the secret
 * away, and the launcher told of it. */
static void check_file(struct keyring *ring, int fd)
{
	char text[48] = "";
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	if (n == 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	if (n < 0 || !keyring_check(ring, text))
		log_warn("key.file_unknown",
		         "file='admin.key' error='it holds no key that is in use' hint='root needs "
		         "no key: make another with `cloche key create`, and remove the file'");
	OPENSSL_cleanse(text, sizeof(text));
}

int keyring_ensure_admin(struct keyring *ring, int fd, struct err *err)
{
	if (!list_empty(&ring->keys)) {
		check_file(ring, fd);
		return 0;
	}
	return first_key(ring, fd, err);
}
