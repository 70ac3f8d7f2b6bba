// SPDX-License-Identifier: Apache-2.0
#include "daemon/listen.h"

#include "base/parse.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#define BACKLOG 1024

static int set_ipv4(struct listen_address *a, const char *host, uint16_t port)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};

	if (inet_pton(AF_INET, host, &in.sin_addr) != 1)
		return -EINVAL;
	memcpy(&a->addr, &in, sizeof(in));
	a->len = sizeof(in);
	return 0;
}

static int set_ipv6(struct listen_address *a, const char *host, uint16_t port)
{
	struct sockaddr_in6 in = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	if (inet_pton(AF_INET6, host, &in.sin6_addr) != 1)
		return -EINVAL;
	memcpy(&a->addr, &in, sizeof(in));
	a->len = sizeof(in);
	return 0;
}

int listen_parse(const char *text, struct listen_address *ret, struct err *err)
{
	const char *colon = strrchr(text, ':');
	char host[64];
	uint64_t port;
	size_t len;
	int r;

	memset(ret, 0, sizeof(*ret));
	if (!colon || parse_u64(colon + 1, UINT16_MAX, &port) < 0 || colon == text)
		return err_field(err, "listen", "'%s' is not ADDRESS:PORT", text);
	len = (size_t)(colon - text);
	if (len >= sizeof(host))
		return err_field(err, "listen", "'%s' is too long", text);
	memcpy(host, text, len);
	host[len] = '\0';
	if (host[0] == '[' && host[len - 1] == ']') {
		host[len - 1] = '\0';
		r = set_ipv6(ret, host + 1, (uint16_t)port);
	} else {
		r = set_ipv4(ret, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host,
		             (uint16_t)port);
	}
	if (r < 0)
		return err_field(err, "listen", "'%s' is no address of IPv4 or [IPv6]", host);
	return 0;
}

bool listen_is_wildcard(const struct listen_address *a)
{
	struct sockaddr_in in;
	struct sockaddr_in6 in6;

	if (a->addr.ss_family == AF_INET) {
		memcpy(&in, &a->addr, sizeof(in));
		return in.sin_addr.s_addr == htonl(INADDR_ANY);
	}
	memcpy(&in6, &a->addr, sizeof(in6));
	return IN6_IS_ADDR_UNSPECIFIED(&in6.sin6_addr);
}

int listen_tcp(const char *text, int *ret_fd, struct err *err)
{
	auto_fd int fd = -1;
	struct listen_address a;
	const int on = 1;
	int r = listen_parse(text, &a, err);

	if (r < 0)
		return r;
	fd = socket(a.addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a socket for %s", text);
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    (a.addr.ss_family == AF_INET6 &&
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0) ||
	    bind(fd, (struct sockaddr *)&a.addr, a.len) < 0 || listen(fd, BACKLOG) < 0) {
		r = err_set(err, ERR_INTERNAL, errno, "cannot listen on %s", text);
		return errno == EADDRINUSE
		               ? err_hint(err, "another program has this port: choose one with "
		                               "--listen, or --listen none")
		               : r;
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

static int remove_stale(const char *path, struct err *err)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT
		               ? 0
		               : err_set(err, ERR_INTERNAL, errno, "cannot look at '%s'", path);
	if (!S_ISSOCK(st.st_mode))
		return err_set(err, ERR_CONFLICT, EEXIST, "'%s' is not a socket", path);
	if (unlink(path) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot remove '%s'", path);
	return 0;
}

int listen_unix(const char *path, gid_t gid, int *ret_fd, struct err *err)
{
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int r;

	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a unix socket");
	if (strlen(path) >= sizeof(un.sun_path))
		return err_field(err, "socket", "'%s' has more than %zu letters", path,
		                 sizeof(un.sun_path) - 1);
	memcpy(un.sun_path, path, strlen(path));
	r = remove_stale(path, err);
	if (r < 0)
		return r;
	/* The mode before bind() is the new file's mode: so it is narrow first, then the group is
	 * set, then it is widened.
	 */
	if (fchmod(fd, 0600) < 0 || bind(fd, (struct sockaddr *)&un, sizeof(un)) < 0 ||
	    lchown(path, 0, gid) < 0 || chmod(path, 0660) < 0 || listen(fd, BACKLOG) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot listen on '%s'", path);
	*ret_fd = take_fd(&fd);
	return 0;
}

void listen_name(int fd, char *text, size_t size)
{
	struct sockaddr_storage addr = {0};
	socklen_t len = sizeof(addr);
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	char host[INET6_ADDRSTRLEN] = "";

	if (getsockname(fd, (struct sockaddr *)&addr, &len) == 0 && addr.ss_family == AF_INET6) {
		memcpy(&in6, &addr, sizeof(in6));
		(void)inet_ntop(AF_INET6, &in6.sin6_addr, host, sizeof(host));
		(void)snprintf(text, size, "[%s]:%u", host, ntohs(in6.sin6_port));
		return;
	}
	memcpy(&in, &addr, sizeof(in));
	(void)inet_ntop(AF_INET, &in.sin_addr, host, sizeof(host));
	(void)snprintf(text, size, "%s:%u", host, ntohs(in.sin_port));
}
