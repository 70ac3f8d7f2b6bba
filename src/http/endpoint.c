// SPDX-License-Identifier: Apache-2.0
#include "http/endpoint.h"

#include "http/tls.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#define CONNECT_WAIT_MS 10000

static int connect_fd(int family, const struct sockaddr *address, socklen_t len, int *ret)
{
	auto_fd int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	int error = 0, one = 1;
	socklen_t error_len = sizeof(error);

	if (fd < 0)
		return -errno;
	if (connect(fd, address, len) < 0 && errno != EINPROGRESS)
		return -errno;
	while (poll(&p, 1, CONNECT_WAIT_MS) < 0)
		if (errno != EINTR)
			return -errno;
	if (p.revents == 0)
		return -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len) < 0)
		return -errno;
	if (error != 0)
		return -error;
	if (family != AF_UNIX)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	*ret = take_fd(&fd);
	return 0;
}

static int connect_unix(const struct endpoint *e, int *ret, struct err *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t len = strlen(e->socket_path);
	int r = -ENAMETOOLONG;

	if (len < sizeof(address.sun_path)) {
		memcpy(address.sun_path, e->socket_path, len + 1);
		r = connect_fd(AF_UNIX, (const struct sockaddr *)&address, sizeof(address), ret);
	}
	return r < 0 ? err_set(err, ERR_UNAVAILABLE, -r, "cannot reach %s", e->url) : 0;
}

static int connect_tcp(const struct endpoint *e, int *ret, struct err *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
	int r = getaddrinfo(e->host, e->port, &hints, &found);

	if (r != 0)
		return err_set(err, ERR_UNAVAILABLE, 0, "cannot find '%s': %s", e->host,
		               gai_strerror(r));
	r = -ENOENT;
	for (const struct addrinfo *a = found; a && r < 0; a = a->ai_next)
		r = connect_fd(a->ai_family, a->ai_addr, a->ai_addrlen, ret);
	freeaddrinfo(found);
	return r < 0 ? err_set(err, ERR_UNAVAILABLE, -r, "cannot reach %s", e->url) : 0;
}

int endpoint_connect(const struct endpoint *e, struct transport *ret, struct err *err)
{
	struct transport t;
	int fd = -1;
	int r = e->socket_path ? connect_unix(e, &fd, err) : connect_tcp(e, &fd, err);

	if (r < 0)
		return r;
	transport_init(&t, fd);
	if (e->tls)
		r = transport_start_tls(&t, e->tls, e->host, err);
	if (r < 0) {
		transport_close(&t);
		return r;
	}
	*ret = t;
	return 0;
}

/* The "host[:port]" after the scheme. A slash may follow, but no path. */
static int parse_authority(struct endpoint *e, const char *text, const char *default_port)
{
	size_t len = strcspn(text, "/");
	unsigned port;

	if (text[len] != '\0' && text[len + 1] != '\0')
		return -EINVAL;
	e->authority = xstrndup(text, len);
	if (http_host_parse(e->authority, e->host, &port) < 0)
		return -EINVAL;
	(void)snprintf(e->port, sizeof(e->port), "%u", port);
	if (port == 0)
		(void)snprintf(e->port, sizeof(e->port), "%s", default_port);
	return 0;
}

int endpoint_init(struct endpoint *e, const char *url, struct err *err)
{
	*e = (struct endpoint){.url = xstrdup(url)};
	if (strncmp(url, "unix:/", 6) == 0) {
		e->socket_path = xstrdup(url + 5);
		e->authority = xstrdup("localhost");
		return 0;
	}
	if (strncmp(url, "http://", 7) == 0 && parse_authority(e, url + 7, "80") == 0)
		return 0;
	if (strncmp(url, "https://", 8) == 0 && parse_authority(e, url + 8, "443") == 0)
		return tls_context_new_client(NULL, &e->tls, err);
	(void)err_set(err, ERR_BAD_REQUEST, 0, "'%.200s' is no address of a server", url);
	return err_hint(err, "use unix:/path, http://host:port or https://host:port");
}

void endpoint_done(struct endpoint *e)
{
	tls_context_free(e->tls);
	free(e->socket_path);
	free(e->authority);
	free(e->url);
	*e = (struct endpoint){0};
}
