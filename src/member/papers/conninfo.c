// SPDX-License-Identifier: Apache-2.0
#include "member/papers/conninfo.h"

#include "member/papers/trouble.h"

#include <libpq-fe.h>
#include <string.h>

#define HOST_AUTHORITIES "/etc/ssl/certs/ca-certificates.crt"

int conninfo_read(struct conninfo *c, const char *what, const char *text, struct err *err)
{
	char *message = NULL;
	PQconninfoOption *all = PQconninfoParse(text, &message);

	if (!all) {
		auto_free char *line = trouble_line(message ? message : "it cannot be read");

		PQfreemem(message);
		return trouble_set(err, TROUBLE_SETTING, "%s: %s", what, line);
	}
	for (const PQconninfoOption *o = all; o->keyword; o++)
		if (o->val && o->val[0])
			conninfo_set(c, o->keyword, o->val);
	PQconninfoFree(all);
	return 0;
}

void conninfo_done(struct conninfo *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->keys[i]);
		free(c->values[i]);
	}
	*c = (struct conninfo){0};
}

static size_t place_of(const struct conninfo *c, const char *key)
{
	size_t i = 0;

	while (i < c->n && strcmp(c->keys[i], key) != 0)
		i++;
	return i;
}

const char *conninfo_get(const struct conninfo *c, const char *key)
{
	size_t i = place_of(c, key);

	return i < c->n ? c->values[i] : NULL;
}

void conninfo_set(struct conninfo *c, const char *key, const char *value)
{
	size_t i = place_of(c, key);

	if (i == CONNINFO_MAX)
		return; /* libpq has fewer */
	if (i == c->n) {
		c->keys[i] = xstrdup(key);
		c->n++;
	}
	free(c->values[i]);
	c->values[i] = xstrdup(value);
}

void conninfo_default(struct conninfo *c, const char *key, const char *value)
{
	if (!conninfo_get(c, key))
		conninfo_set(c, key, value);
}

void conninfo_copy(struct conninfo *to, const struct conninfo *from)
{
	for (size_t i = 0; i < from->n; i++)
		conninfo_set(to, from->keys[i], from->values[i]);
}

int conninfo_for_member(struct conninfo *c, const char *user, const char *password, struct err *err)
{
	const char *host = conninfo_get(c, "host");

	if (!host && !conninfo_get(c, "hostaddr"))
		return trouble_set(err, TROUBLE_SETTING, "cluster.postgres: names no host");
	if (host && strchr(host, '/'))
		return trouble_set(err, TROUBLE_SETTING,
		                   "cluster.postgres: host=%s is a folder of sockets, which the "
		                   "member does not see: name a host or an address",
		                   host);
	conninfo_default(c, "user", user);
	conninfo_default(c, "password", password);
	conninfo_default(c, "dbname", "cloche");
	conninfo_default(c, "sslmode", "verify-full");
	if (strncmp(conninfo_get(c, "sslmode"), "verify", strlen("verify")) == 0)
		conninfo_default(c, "sslrootcert", HOST_AUTHORITIES);
	conninfo_set(c, "target_session_attrs", "read-write");
	conninfo_set(c, "gssencmode", "disable");
	conninfo_set(c, "client_encoding", "UTF8");
	conninfo_set(c, "application_name", "cloche");
	conninfo_default(c, "tcp_user_timeout", "10000");
	return 0;
}
