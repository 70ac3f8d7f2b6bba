// SPDX-License-Identifier: Apache-2.0
#include "event/verify.h"

#include <inttypes.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#define HEX_LEN  (CHAIN_HEX_SIZE - 1)
#define SEQ_HEAD "{\"seq\":"
#define PREV_KEY ",\"prev\":\""
#define HASH_KEY ",\"hash\":\""
#define LINE_END "\"}"

void chain_hex(const unsigned char hash[32], char ret[CHAIN_HEX_SIZE])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < 32; i++) {
		ret[2 * i] = digits[hash[i] >> 4];
		ret[2 * i + 1] = digits[hash[i] & 15];
	}
	ret[HEX_LEN] = '\0';
}

void chain_hash(const void *data, size_t len, unsigned char ret[32])
{
	(void)SHA256(data, len, ret);
}

/* Removes KEY, 64 characters and END from the end of the line. */
static int take_hash(const char *line, size_t *len, const char *key, const char *end,
                     char ret[CHAIN_HEX_SIZE])
{
	size_t size = strlen(key) + HEX_LEN + strlen(end);
	const char *at;

	if (*len < size)
		return -EINVAL;
	at = line + *len - size;
	if (memcmp(at, key, strlen(key)) != 0 ||
	    memcmp(line + *len - strlen(end), end, strlen(end)) != 0)
		return -EINVAL;
	(void)snprintf(ret, CHAIN_HEX_SIZE, "%.*s", (int)HEX_LEN, at + strlen(key));
	*len -= size;
	return 0;
}

static int read_seq(const char *line, size_t len, uint64_t *ret)
{
	size_t at = strlen(SEQ_HEAD);
	uint64_t seq = 0;

	if (len <= at || memcmp(line, SEQ_HEAD, at) != 0)
		return -EINVAL;
	for (; at < len && line[at] >= '0' && line[at] <= '9'; at++) {
		if (seq > (uint64_t)INT64_MAX / 10)
			return -EINVAL;
		seq = seq * 10 + (uint64_t)(line[at] - '0');
	}
	*ret = seq;
	return at < len && line[at] == ',' && seq > 0 ? 0 : -EINVAL;
}

int chain_check_line(const char *line, size_t len, struct chain_link *ret, struct err *err)
{
	struct chain_link link = {0};
	unsigned char hash[32];
	char is[CHAIN_HEX_SIZE];
	size_t covered;

	if (read_seq(line, len, &link.seq) < 0 ||
	    take_hash(line, &len, HASH_KEY, LINE_END, link.hash) < 0)
		return err_set(err, ERR_INVALID_FIELD, 0, "this is not an entry of an event log");
	covered = len;
	if (take_hash(line, &len, PREV_KEY, "\"", link.prev) < 0)
		return err_set(err, ERR_INVALID_FIELD, 0, "entry %" PRIu64 " has no link",
		               link.seq);
	chain_hash(line, covered, hash);
	chain_hex(hash, is);
	if (strcmp(is, link.hash) != 0)
		return err_set(err, ERR_CONFLICT, 0, "entry %" PRIu64 " was altered", link.seq);
	*ret = link;
	return 0;
}

int chain_check_next(const struct chain_link *prev, const struct chain_link *next, struct err *err)
{
	if (next->seq <= prev->seq)
		return err_set(err, ERR_CONFLICT, 0, "entry %" PRIu64 " stands behind %" PRIu64,
		               next->seq, prev->seq);
	if (strcmp(next->prev, prev->hash) != 0)
		return err_set(err, ERR_CONFLICT, 0,
		               "entry %" PRIu64 " does not follow entry %" PRIu64
		               ": something between them is missing, or one was altered",
		               next->seq, prev->seq);
	return 0;
}
