// SPDX-License-Identifier: Apache-2.0
#include "event/verify.h"

#include "base/auto.h"

#include <inttypes.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <uthash.h>

#define HEX_LEN     (CHAIN_HEX_SIZE - 1)
#define SEQ_HEAD    "{\"seq\":"
#define PREV_KEY    ",\"prev\":\""
#define HASH_KEY    ",\"hash\":\""
#define PROJECT_KEY ",\"project_id\":"
#define PLACE_KEY   ",\"place\":"
#define AUDIT_KEY   ",\"type\":\"api."
#define FROM_KEY    ",\"from\":"
#define DATA_KEY    ",\"data\":"

void chain_name(char ret[CHAIN_NAME_SIZE], const char *project_id, bool is_former, bool is_audit)
{
	if (is_former)
		(void)snprintf(ret, CHAIN_NAME_SIZE, CHAIN_FORMER);
	else
		(void)snprintf(ret, CHAIN_NAME_SIZE, "%.*s%s", ID_SIZE - 1, project_id,
		               is_audit ? CHAIN_AUDIT : "");
}

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

/* Digits from *at on, which moves behind them. */
static int read_number(const char *line, size_t len, size_t *at, uint64_t *ret)
{
	uint64_t n = 0;

	for (; *at < len && line[*at] >= '0' && line[*at] <= '9'; (*at)++) {
		if (n > (uint64_t)INT64_MAX / 10)
			return -EINVAL;
		n = n * 10 + (uint64_t)(line[*at] - '0');
	}
	*ret = n;
	return n > 0 ? 0 : -EINVAL;
}

static int read_seq(const char *line, size_t len, uint64_t *ret)
{
	size_t at = strlen(SEQ_HEAD);

	if (len <= at || memcmp(line, SEQ_HEAD, at) != 0 || read_number(line, len, &at, ret) < 0)
		return -EINVAL;
	return at < len && line[at] == ',' ? 0 : -EINVAL;
}

/* Removes the place from behind the hash, if it is there; *len then ends with the hash's quote. */
static int take_place(const char *line, size_t *len, uint64_t *ret)
{
	size_t end = *len, at;

	if (end < 2 || line[end - 1] != '}')
		return -EINVAL;
	if (line[end - 2] == '"') {
		*len = end - 1;
		return 0;
	}
	for (at = end - 1; at > 0 && line[at - 1] >= '0' && line[at - 1] <= '9'; at--)
		;
	if (at < strlen(PLACE_KEY) ||
	    memcmp(line + at - strlen(PLACE_KEY), PLACE_KEY, strlen(PLACE_KEY)) != 0)
		return -EINVAL;
	*len = at - strlen(PLACE_KEY);
	return read_number(line, end, &at, ret);
}

/* Fields before the facts have no text in which a key could be hidden but ids, words, the agent and
 * the person, which are behind all that is looked for here. */
static const char *find_key(const char *line, size_t len, const char *key)
{
	const char *end = memmem(line, len, DATA_KEY, strlen(DATA_KEY));
	const char *at = end ? memmem(line, (size_t)(end - line), key, strlen(key)) : NULL;

	return at ? at + strlen(key) : NULL;
}

static int read_project(const char *line, size_t len, struct chain_link *ret)
{
	const char *at = find_key(line, len, PROJECT_KEY), *end;

	if (!at)
		return -EINVAL;
	if (*at != '"')
		return strncmp(at, "null,", 5) == 0 ? 0 : -EINVAL;
	end = memchr(at + 1, '"', (size_t)(line + len - at - 1));
	if (!end || (size_t)(end - at) > sizeof(ret->project_id))
		return -EINVAL;
	(void)snprintf(ret->project_id, sizeof(ret->project_id), "%.*s", (int)(end - at - 1),
	               at + 1);
	return 0;
}

static int read_chain(const char *line, size_t len, struct chain_link *ret)
{
	const bool is_audit = find_key(line, len, AUDIT_KEY) != NULL;

	if (read_project(line, len, ret) < 0)
		return -EINVAL;
	ret->is_former = !find_key(line, len, FROM_KEY);
	chain_name(ret->chain, ret->project_id, ret->is_former, is_audit);
	return 0;
}

int chain_check_line(const char *line, size_t len, struct chain_link *ret, struct err *err)
{
	struct chain_link link = {0};
	unsigned char hash[32];
	char is[CHAIN_HEX_SIZE];
	size_t covered;

	if (read_seq(line, len, &link.seq) < 0 || take_place(line, &len, &link.place) < 0 ||
	    take_hash(line, &len, HASH_KEY, "\"", link.hash) < 0 ||
	    read_chain(line, len, &link) < 0)
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

struct chain_entry {
	char chain[CHAIN_NAME_SIZE];
	struct chain_seen seen;
	UT_hash_handle hh;
};
struct chain_export {
	struct chain_entry *all;
};

struct chain_export *chain_export_new(void)
{
	return xnew0(struct chain_export);
}

void chain_export_free(struct chain_export *export)
{
	struct chain_entry *e, *next;

	if (!export)
		return;
	HASH_ITER (hh, export->all, e, next) {
		HASH_DEL(export->all, e);
		free(e);
	}
	free(export);
}

static struct chain_entry *find(const struct chain_export *export, const char *chain)
{
	struct chain_entry *e;

	HASH_FIND_STR(export->all, chain, e);
	return e;
}

const struct chain_seen *chain_export_find(const struct chain_export *export, const char *chain)
{
	const struct chain_entry *e = find(export, chain);

	return e ? &e->seen : NULL;
}

size_t chain_export_count(const struct chain_export *export)
{
	return HASH_COUNT(export->all);
}

static int check_in_chain(const struct chain_entry *e, const struct chain_link *link,
                          bool is_partial, struct err *err)
{
	if (is_partial)
		return 0;
	if (!e)
		return link->seq == 1 && strspn(link->prev, "0") != HEX_LEN
		               ? err_set(err, ERR_CONFLICT, 0, "entry 1 follows another one")
		               : 0;
	/* What one project sees of the former chain has gaps. */
	if (link->is_former && link->place == 0)
		return 0;
	return chain_check_next(&e->seen.last, link, err);
}

static struct chain_entry *make_entry(struct chain_export *export, const char *chain,
                                      const struct chain_link *first)
{
	struct chain_entry *e = xnew0(struct chain_entry);

	(void)snprintf(e->chain, sizeof(e->chain), "%s", chain);
	e->seen.first = *first;
	HASH_ADD_STR(export->all, chain, e);
	return e;
}

int chain_export_skip(struct chain_export *export, const char *chain, uint64_t after, uint64_t seq,
                      const char *hash, struct err *err)
{
	struct chain_entry *e = find(export, chain);
	struct chain_link point = {.seq = seq};

	(void)snprintf(point.hash, sizeof(point.hash), "%s", hash);
	if (e && (e->seen.last.seq < after || e->seen.last.seq > seq))
		return err_set(err, ERR_CONFLICT, 0,
		               "a gap is told behind entry %" PRIu64
		               ", but the last one before it is %" PRIu64 ": something is missing",
		               after, e->seen.last.seq);
	if (!e)
		e = make_entry(export, chain, &point);
	e->seen.last = point;
	return 0;
}

int chain_export_add(struct chain_export *export, const struct chain_link *link, bool is_partial,
                     struct err *err)
{
	struct chain_entry *e = find(export, link->chain);
	int r = check_in_chain(e, link, is_partial, err);

	if (r < 0)
		return link->project_id[0] && link->place > 0
		               ? err_prefix(err, "project %s", link->project_id)
		               : r;
	if (!e)
		e = make_entry(export, link->chain, link);
	e->seen.last = *link;
	e->seen.n++;
	return 0;
}
