// SPDX-License-Identifier: Apache-2.0
#include "build/image/registries.h"

#include "build/image/image_reference.h"
#include "net/policy/secret_reference.h"

#include <string.h>

/* The authority before the '='; what is behind it, or NULL where there is no such row. */
static const char *split(const char *row, struct host *host, uint16_t *port, const char **why)
{
	const char *equals = strchr(row, '=');

	*why = "has no '='";
	if (!equals || authority_parse(row, (size_t)(equals - row), host, port, why) < 0)
		return NULL;
	if (*port == 0)
		*port = REGISTRY_PORT;
	return equals + 1;
}

static int check_mirror(const char *row, struct err *err)
{
	struct host host;
	struct url url;
	uint16_t port;
	const char *why;
	const char *text = split(row, &host, &port, &why);

	if (!text || url_parse(text, strlen(text), &url, &why) < 0)
		return err_field(err, "registries.mirrors", "'%.150s' must be HOST=URL: %s", row,
		                 why);
	if (url.query)
		return err_field(err, "registries.mirrors", "'%.150s' has a query", row);
	if (url.scheme == URL_HTTPS || (url.scheme == URL_HTTP && host_is_loopback(&url.host)))
		return 0;
	return err_field(err, "registries.mirrors",
	                 "'%.150s' must be https (http on this host alone)", row);
}

static int check_credentials(const char *row, struct err *err)
{
	struct host host;
	uint16_t port;
	const char *why;
	const char *text = split(row, &host, &port, &why);
	const char *colon = text ? strchr(text, ':') : NULL;

	if (!text || !colon || colon == text || !secret_name_is_valid(colon + 1))
		return err_field(err, "registries.credentials",
		                 "'%.150s' must be HOST=USER:SECRET with the name of a secret",
		                 row);
	return 0;
}

int registries_check(const struct registries_config *c, struct err *err)
{
	struct image_reference ref;
	int r = 0;

	if (c->place)
		r = image_reference_parse("a", c->place, "registries.default", &ref, err);
	for (char **p = c->mirrors; r == 0 && p && *p; p++)
		r = check_mirror(*p, err);
	for (char **p = c->credentials; r == 0 && p && *p; p++)
		r = check_credentials(*p, err);
	return r;
}

static const char *find(char *const *rows, const struct host *host, uint16_t port, size_t i)
{
	for (; rows && *rows; rows++) {
		struct host of;
		uint16_t at;
		const char *why;
		const char *text = split(*rows, &of, &at, &why);

		if (text && at == (port ? port : REGISTRY_PORT) && host_is_equal(&of, host) &&
		    i-- == 0)
			return text;
	}
	return NULL;
}

const char *registries_mirror(const struct registries_config *c, const struct host *host,
                              uint16_t port, size_t i)
{
	return find(c->mirrors, host, port, i);
}

const char *registries_credentials(const struct registries_config *c, const struct host *host,
                                   uint16_t port)
{
	return find(c->credentials, host, port, 0);
}

static bool is_in(char *const *rows, const struct host *host)
{
	for (; rows && *rows; rows++) {
		struct host of;
		uint16_t port;
		struct url url;
		const char *why;
		const char *text = split(*rows, &of, &port, &why);

		if (text &&
		    (host_is_equal(&of, host) || (url_parse(text, strlen(text), &url, &why) == 0 &&
		                                  host_is_equal(&url.host, host))))
			return true;
	}
	return false;
}

bool registries_has(const struct registries_config *c, const struct host *host)
{
	struct image_reference ref;
	struct err err;

	return (c->place && image_reference_parse("a", c->place, "", &ref, &err) == 0 &&
	        host_is_equal(&ref.host, host)) ||
	       is_in(c->mirrors, host) || is_in(c->credentials, host);
}
