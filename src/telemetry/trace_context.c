// SPDX-License-Identifier: Apache-2.0
#include "telemetry/trace_context.h"

#include <string.h>

#define PARENT_LEN      55 /* of version 00; later ones may have more behind a dash */
#define STATE_MEMBERS   32
#define STATE_KEY_MAX   256
#define STATE_VALUE_MAX 256
#define IS_SAMPLED      1

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; /* capitals are not allowed */
}

static bool read_bytes(const char *text, uint8_t *ret, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		int high = digit(text[2 * i]), low = high < 0 ? -1 : digit(text[2 * i + 1]);

		if (low < 0)
			return false;
		ret[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static bool is_zero(const uint8_t *bytes, size_t len)
{
	uint8_t any = 0;

	for (size_t i = 0; i < len; i++)
		any |= bytes[i];
	return any == 0;
}

int trace_context_parse(const char *traceparent, struct trace_context *ret)
{
	struct trace_context c = {0};
	size_t len = strnlen(traceparent, PARENT_LEN + 1);
	uint8_t version, flags;

	if (len < PARENT_LEN || !read_bytes(traceparent, &version, 1) || version == 0xff)
		return -EINVAL;
	if (len > PARENT_LEN && (version == 0 || traceparent[PARENT_LEN] != '-'))
		return -EINVAL;
	if (traceparent[2] != '-' || traceparent[35] != '-' || traceparent[52] != '-')
		return -EINVAL;
	if (!read_bytes(traceparent + 3, c.trace_id, TRACE_ID_LEN) ||
	    !read_bytes(traceparent + 36, c.span_id, SPAN_ID_LEN) ||
	    !read_bytes(traceparent + 53, &flags, 1))
		return -EINVAL;
	if (is_zero(c.trace_id, TRACE_ID_LEN) || is_zero(c.span_id, SPAN_ID_LEN))
		return -EINVAL;
	c.is_sampled = flags & IS_SAMPLED;
	*ret = c;
	return 0;
}

static bool is_key_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c && strchr("_-*/@", c));
}

static bool is_member(const char *text, size_t len)
{
	const char *equals = memchr(text, '=', len);
	size_t key_len = equals ? (size_t)(equals - text) : 0, value_len = len - key_len - 1;

	if (key_len == 0 || key_len > STATE_KEY_MAX || strchr("_-*/@", text[0]))
		return false;
	if (value_len == 0 || value_len > STATE_VALUE_MAX)
		return false;
	for (size_t i = 0; i < key_len; i++)
		if (!is_key_letter(text[i]))
			return false;
	for (size_t i = key_len + 1; i < len; i++)
		if (text[i] < 0x20 || text[i] > 0x7e || text[i] == '=')
			return false;
	return true;
}

bool trace_state_is_valid(const char *text)
{
	size_t members = 0;

	if (strnlen(text, TRACESTATE_SIZE) == TRACESTATE_SIZE)
		return false;
	while (*text) {
		size_t len = strcspn(text, ","), blank = strspn(text, " \t");
		const char *next = text + len + (text[len] == ',');

		if (blank < len) { /* an empty one is allowed */
			while (strchr(" \t", text[len - 1]))
				len--;
			if (++members > STATE_MEMBERS || !is_member(text + blank, len - blank))
				return false;
		}
		text = next;
	}
	return members > 0;
}

void trace_hex(const uint8_t *bytes, size_t len, char *ret)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < len; i++) {
		*ret++ = digits[bytes[i] >> 4];
		*ret++ = digits[bytes[i] & 15];
	}
	*ret = '\0';
}

void trace_context_format(const uint8_t trace_id[TRACE_ID_LEN], const uint8_t span_id[SPAN_ID_LEN],
                          bool is_sampled, char ret[TRACEPARENT_SIZE])
{
	ret[0] = ret[1] = '0'; /* the version */
	ret[2] = '-';
	trace_hex(trace_id, TRACE_ID_LEN, ret + 3);
	ret[35] = '-';
	trace_hex(span_id, SPAN_ID_LEN, ret + 36);
	memcpy(ret + 52, is_sampled ? "-01" : "-00", 4);
}
