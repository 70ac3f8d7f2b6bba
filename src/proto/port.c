// SPDX-License-Identifier: Apache-2.0
/* Texts of control records are read key by key, by two tables. Values are numbers, except for
 * names, hex and addresses. */
#include "proto/port.h"

#include "base/parse.h"
#include "proto/pack.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES 256

static int put_head(struct buf *out, uint32_t connection, size_t len)
{
	struct pack p = {.out = out};

	pack_u32(&p, connection);
	pack_u32(&p, (uint32_t)len);
	return p.error;
}

int port_put(struct buf *out, uint32_t connection, const void *data, size_t len)
{
	const size_t n_records = (len + PORT_DATA_MAX - 1) / PORT_DATA_MAX;
	const char *at = data;
	char *room;
	int r = buf_reserve(out, len + n_records * PORT_HEAD_SIZE, &room);

	/* With room for all of it, nothing can fail halfway. */
	while (r >= 0 && len > 0) {
		size_t n = MIN(len, (size_t)PORT_DATA_MAX);

		r = put_head(out, connection, n);
		if (r >= 0)
			r = buf_append(out, at, n);
		at += n;
		len -= n;
	}
	return r;
}

int port_put_end(struct buf *out, uint32_t connection)
{
	char *room;
	int r = buf_reserve(out, PORT_HEAD_SIZE, &room);

	return r < 0 ? r : put_head(out, connection, 0);
}

int port_put_control(struct buf *out, enum port_kind kind, const void *text, size_t len)
{
	const uint8_t byte = (uint8_t)kind;
	char *room;
	int r;

	if (len > PORT_TEXT_MAX - 1)
		return -E2BIG;
	r = buf_reserve(out, PORT_HEAD_SIZE + 1 + len, &room);
	if (r >= 0)
		r = put_head(out, 0, 1 + len);
	if (r >= 0)
		r = buf_append(out, &byte, 1);
	return r < 0 || len == 0 ? r : buf_append(out, text, len);
}

int port_get(const struct buf *in, struct port_record *ret)
{
	struct unpack u = {.data = (const unsigned char *)in->data, .len = PORT_HEAD_SIZE};
	struct port_record record;

	if (in->len < PORT_HEAD_SIZE)
		return 0;
	record.connection = unpack_u32(&u);
	record.len = unpack_u32(&u);
	record.data = in->data + PORT_HEAD_SIZE;
	if (record.connection == 0 ? record.len < 1 || record.len > PORT_TEXT_MAX
	                           : record.len > PORT_DATA_MAX)
		return -EPROTO;
	if (in->len - PORT_HEAD_SIZE < record.len)
		return 0;
	*ret = record;
	return 1;
}

void port_consume(struct buf *in, const struct port_record *r)
{
	buf_consume(in, PORT_HEAD_SIZE + r->len);
}

static bool read_hex(const char *text, uint8_t *ret, size_t size)
{
	if (strlen(text) != 2 * size)
		return false;
	for (size_t i = 0; i < size; i++) {
		uint64_t byte;

		if (parse_hex(text + 2 * i, 2, &byte) < 0)
			return false;
		ret[i] = (uint8_t)byte;
	}
	return true;
}

static bool is_hostname(const char *text)
{
	for (const char *p = text; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '-' && *p != '.' && *p != '_')
			return false;
	return text[0] != '\0' && strlen(text) < sizeof(((struct port_setup *)NULL)->hostname);
}

static bool read_address(const char *text, int family, struct port_address *ret)
{
	ret->is_set = inet_pton(family, text, ret->bytes) == 1;
	return ret->is_set;
}

/* clang-format off */
static const struct {
	const char *key;
	size_t offset;
} numbers[] = {
	{"clock_us", offsetof(struct port_setup, clock_us)},
	{"nofile",   offsetof(struct port_setup, open_files)},
	{"pids",     offsetof(struct port_setup, pids)},
	{"memory",   offsetof(struct port_setup, memory_bytes)},
}, figures[] = {
	{"oom_kills",    offsetof(struct port_usage, oom_kills)},
	{"pids_refused", offsetof(struct port_usage, pids_refused)},
	{"memory",       offsetof(struct port_usage, memory_bytes)},
	{"memory_peak",  offsetof(struct port_usage, memory_peak_bytes)},
	{"pids",         offsetof(struct port_usage, pids)},
	{"disk",         offsetof(struct port_usage, disk_bytes)},
	{"disk_total",   offsetof(struct port_usage, disk_total_bytes)},
	{"inodes",       offsetof(struct port_usage, inodes)},
};

static const struct {
	const char *key;
	int family;
	size_t offset;
} addresses[] = {
	{"ip4",      AF_INET,  offsetof(struct port_setup, ip4)},
	{"gateway4", AF_INET,  offsetof(struct port_setup, gateway4)},
	{"ip6",      AF_INET6, offsetof(struct port_setup, ip6)},
	{"gateway6", AF_INET6, offsetof(struct port_setup, gateway6)},
};
/* clang-format on */

static bool read_number(const char *text, void *ret)
{
	uint64_t value;

	if (parse_u64(text, INT64_MAX, &value) < 0)
		return false;
	memcpy(ret, &value, sizeof(value));
	return true;
}

/* False for a known key with a wrong value. */
static bool read_setup(const char *key, const char *value, void *arg)
{
	struct port_setup *s = arg;

	if (strcmp(key, "hostname") == 0) {
		(void)snprintf(s->hostname, sizeof(s->hostname), "%s", value);
		return is_hostname(value);
	}
	if (strcmp(key, "machine_id") == 0)
		return s->has_machine_id = read_hex(value, s->machine_id, sizeof(s->machine_id));
	if (strcmp(key, "seed") == 0)
		return s->has_seed = read_hex(value, s->seed, sizeof(s->seed));
	if (strcmp(key, "caps") == 0)
		return s->has_caps = parse_hex(value, strlen(value), &s->caps) == 0;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (strcmp(key, numbers[i].key) == 0)
			return read_number(value, (char *)s + numbers[i].offset);
	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++)
		if (strcmp(key, addresses[i].key) == 0)
			return read_address(value, addresses[i].family,
			                    (void *)((char *)s + addresses[i].offset));
	return true;
}

/* Calls fn for each line, with its end and its '=' turned into NULs. */
static int read_lines(const char *text, size_t len,
                      bool (*fn)(const char *key, const char *value, void *arg), void *arg,
                      struct err *err)
{
	const char *end = text + len;

	while (text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((stop ? stop : end) - text);
		char line[LINE_MAX_BYTES], *value;

		if (n >= sizeof(line) || memchr(text, '\0', n))
			return err_set(err, ERR_INTERNAL, EPROTO,
			               "a line is too long or has a NUL");
		memcpy(line, text, n);
		line[n] = '\0';
		value = strchr(line, '=');
		if (!value)
			return err_set(err, ERR_INTERNAL, EPROTO, "'%.32s' has no value", line);
		*value++ = '\0';
		if (!fn(line, value, arg))
			return err_set(err, ERR_INTERNAL, EPROTO, "%.32s: '%.64s' is wrong", line,
			               value);
		text += n + 1;
	}
	return 0;
}

int port_setup_parse(const char *text, size_t len, struct port_setup *ret, struct err *err)
{
	struct port_setup s = {0};
	int r = read_lines(text, len, read_setup, &s, err);

	if (r == 0)
		*ret = s;
	return r;
}

static int put_hex(struct buf *out, const char *key, const uint8_t *bytes, size_t size)
{
	int r = buf_printf(out, "%s=", key);

	for (size_t i = 0; r >= 0 && i < size; i++)
		r = buf_printf(out, "%02x", bytes[i]);
	return r < 0 ? r : buf_append_str(out, "\n");
}

static int put_address(struct buf *out, const char *key, int family, const struct port_address *a)
{
	char text[INET6_ADDRSTRLEN];

	if (!a->is_set)
		return 0;
	return buf_printf(out, "%s=%s\n", key, inet_ntop(family, a->bytes, text, sizeof(text)));
}

static int put_number(struct buf *out, const char *key, const void *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return buf_printf(out, "%s=%" PRIu64 "\n", key, value);
}

int port_setup_print(const struct port_setup *s, struct buf *out)
{
	int r = 0;

	if (s->hostname[0])
		r = buf_printf(out, "hostname=%s\n", s->hostname);
	if (r >= 0 && s->has_machine_id)
		r = put_hex(out, "machine_id", s->machine_id, sizeof(s->machine_id));
	if (r >= 0 && s->has_seed)
		r = put_hex(out, "seed", s->seed, sizeof(s->seed));
	if (r >= 0 && s->has_caps)
		r = buf_printf(out, "caps=%" PRIx64 "\n", s->caps);
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(numbers); i++)
		r = put_number(out, numbers[i].key, (const char *)s + numbers[i].offset);
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(addresses); i++)
		r = put_address(out, addresses[i].key, addresses[i].family,
		                (const void *)((const char *)s + addresses[i].offset));
	return r;
}

int port_usage_print(const struct port_usage *u, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(figures); i++)
		r = put_number(out, figures[i].key, (const char *)u + figures[i].offset);
	return r;
}

static bool read_usage(const char *key, const char *value, void *arg)
{
	for (size_t i = 0; i < ARRAY_SIZE(figures); i++)
		if (strcmp(key, figures[i].key) == 0)
			return read_number(value, (char *)arg + figures[i].offset);
	return true;
}

int port_usage_parse(const char *text, size_t len, struct port_usage *ret, struct err *err)
{
	struct port_usage u = {0};
	int r = read_lines(text, len, read_usage, &u, err);

	if (r == 0)
		*ret = u;
	return r;
}
