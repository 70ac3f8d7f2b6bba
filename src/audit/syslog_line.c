// SPDX-License-Identifier: Apache-2.0
#include "audit/syslog_line.h"

#include "net/match/url.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define PRIORITY      (13 * 8 + 6) /* log audit, informational */
#define HEAD_MAX      512
#define TCP_PORT      601
#define TLS_PORT      6514
#define PREFIX        "syslog+"
#define HOST_NAME_LEN 255

/* RFC 5424 allows printable ASCII without blanks in the fields of the head. */
static void put_name(char *ret, size_t size, const char *text)
{
	size_t n = 0;

	for (; *text && n + 1 < size; text++)
		ret[n++] = *text > ' ' && *text <= '~' ? *text : '_';
	ret[n] = '\0';
}

int syslog_line_put(struct buf *out, const char *host_name, const struct event_line *line)
{
	const time_t seconds = (time_t)(line->at_us / 1000000);
	char head[HEAD_MAX], when[32], name[HOST_NAME_LEN + 1], id[33];
	struct tm tm = {0};
	int len, r;

	(void)gmtime_r(&seconds, &tm);
	(void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	put_name(name, sizeof(name), host_name[0] ? host_name : "-");
	put_name(id, sizeof(id), line->type);
	len = snprintf(head, sizeof(head), "<%d>1 %s.%06" PRIu64 "Z %s cloche - %s - ", PRIORITY,
	               when, line->at_us % 1000000, name, id);
	if (buf_room(out) < line->len + sizeof(head) + 24)
		return -E2BIG;
	r = buf_printf(out, "%zu %s", (size_t)len + line->len, head);
	return r == 0 ? buf_append(out, line->json, line->len) : r;
}

static int read_place(const char *rest, struct syslog_place *ret, const char **why)
{
	char url[HOST_SIZE + 32];
	struct url u;
	int n = snprintf(url, sizeof(url), "tcp://%s", rest);

	if (n < 0 || (size_t)n >= sizeof(url) - 8)
		return refuse_as(why, "is too long");
	if (url_parse(url, (size_t)n, &u, why) < 0) {
		n = snprintf(url, sizeof(url), "tcp://%s:%d", rest,
		             ret->is_tls ? TLS_PORT : TCP_PORT);
		if (url_parse(url, (size_t)n, &u, why) < 0)
			return -EINVAL;
	}
	ret->port = u.port;
	if (u.host.is_name)
		(void)snprintf(ret->host, sizeof(ret->host), "%s", u.host.name.text);
	else
		address_format(&u.host.address, ret->host);
	(void)snprintf(ret->url, sizeof(ret->url), "%.*s", n, url);
	return 0;
}

int syslog_place_parse(const char *text, const char *field, struct syslog_place *ret,
                       struct err *err)
{
	const char *rest =
		strncmp(text, PREFIX, strlen(PREFIX)) == 0 ? text + strlen(PREFIX) : text;
	const char *why = "must begin with tcp:// or tls://";

	*ret = (struct syslog_place){.is_tls = strncmp(rest, "tls://", 6) == 0};
	if (!ret->is_tls && strncmp(rest, "tcp://", 6) != 0) {
		(void)err_field(err, field, "'%s' %s", text, why);
		return err_hint(err, "such as tls://logs.example.com:6514");
	}
	if (read_place(rest + 6, ret, &why) < 0)
		return err_field(err, field, "'%s': %s", text, why);
	return 0;
}
