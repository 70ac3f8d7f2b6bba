// SPDX-License-Identifier: Apache-2.0
/*
 * What a proxy may say before it lets through. The first byte chooses how it is asked. It is let
 * through or not, and of what the proxy has said behind its answer not a byte is gone.
 */
#include "wall/transport/egress.h"

#include <assert.h>
#include <string.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX 4096

struct talk {
	struct loop *loop;
	int fd;
	bool is_over;
};

static void on_done(int fd, void *arg)
{
	struct talk *t = arg;

	t->fd = fd;
	t->is_over = true;
	loop_stop(t->loop);
}

static void start(struct talk *t, int fd, uint8_t choice)
{
	static const char address[] = "2001:db8::1", name[] = "host.example";
	struct policy_target proxy = {0};
	struct host host = {.is_name = choice & 2};
	int r;

	proxy.url.scheme = choice & 1 ? URL_SOCKS5 : URL_HTTP;
	if (choice & 4) {
		proxy.username = xstrdup("u");
		proxy.password = xstrdup("p");
	}
	r = host.is_name ? hostname_parse(name, strlen(name), &host.name, NULL)
	                 : address_parse(address, strlen(address), &host.address, NULL);
	assert(r == 0);
	assert(egress_start(&(struct egress_want){.loop = t->loop,
	                                          .fd = fd,
	                                          .proxy = &proxy,
	                                          .host = &host,
	                                          .port = 443,
	                                          .done = on_done,
	                                          .arg = t}));
	free(proxy.username);
	free(proxy.password);
}

/* What is left in the socket is the end of what was said. */
static void check_rest(const struct talk *t, const uint8_t *data, size_t size)
{
	uint8_t rest[INPUT_MAX + 1];
	ssize_t n = recv(t->fd, rest, sizeof(rest), MSG_DONTWAIT);

	assert(n >= 0 && (size_t)n < size);
	assert(memcmp(rest, data + size - (size_t)n, (size_t)n) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct talk t = {.fd = -1};
	int pair[2];

	if (size < 2 || size > INPUT_MAX)
		return 0;
	assert(loop_new(&t.loop, NULL) == 0);
	assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
	assert(send(pair[1], data + 1, size - 1, 0) == (ssize_t)size - 1);
	assert(shutdown(pair[1], SHUT_WR) == 0);
	start(&t, pair[0], data[0]);
	assert(loop_run(t.loop) == 0 && t.is_over);
	if (t.fd >= 0) {
		check_rest(&t, data + 1, size - 1);
		(void)close(t.fd);
	}
	(void)close(pair[1]);
	loop_free(t.loop);
	return 0;
}
