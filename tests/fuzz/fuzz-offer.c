// SPDX-License-Identifier: Apache-2.0
/*
 * A listener where each client may take TLS or not, with certificates of the daemon's own authority
 * (http/conn.c, preview/authority.c). The first byte chooses what the rest is.
 *
 *	0	all that a client sends; it then shuts its end. Who begins a handshake gets records
 *		of TLS, everybody else HTTP, and the connection ends
 *	1, 2	the name that a client asks for, below a domain of two labels or of one. The
 *		certificate has no name that is not the domain or below it
 */
#include "http/server.h"
#include "http/tls.h"
#include "loop/loop.h"
#include "preview/authority.h"

#include <assert.h>
#include <ftw.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX        16384
#define HANDSHAKE_RECORD 22
#define NOW_S            ((time_t)1800000000)

static const char *const domains[] = {"box.test", "localhost"};
static const struct http_app app = {0};

static struct {
	struct loop *loop;
	struct http_server *server;
	struct authority *authorities[2];
	struct sockaddr_un address;
	socklen_t address_len;
} all;

struct client {
	int fd;
	struct loop_io *io;
	char first[8];
	size_t n;
};

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

static void open_authorities(void)
{
	char dir[] = "/tmp/fuzz-offer-XXXXXX";
	struct err err;

	if (!mkdtemp(dir))
		abort();
	for (size_t i = 0; i < ARRAY_SIZE(domains); i++)
		if (authority_open(dir, domains[i], NOW_S, &all.authorities[i], &err) < 0)
			abort();
	(void)nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS); /* it is read once */
}

static void open_server(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct tls_context *tls;
	struct err err;

	all.address.sun_family = AF_UNIX;
	all.address_len = sizeof(all.address);
	if (bind(fd, (struct sockaddr *)&all.address, sizeof(sa_family_t)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&all.address, &all.address_len) < 0 ||
	    listen(fd, 8) < 0 || tls_context_new_bare(&tls, &err) < 0 ||
	    loop_new(&all.loop, &err) < 0 || http_server_new(all.loop, &app, &all.server, &err) < 0)
		abort();
	authority_serve(all.authorities[1], tls);
	if (http_server_listen_both(all.server, fd, tls, &err) < 0)
		abort();
}

static void on_reply(struct loop *loop, uint32_t events, void *arg)
{
	struct client *c = arg;
	char data[4096];
	ssize_t n = recv(c->fd, data, sizeof(data), MSG_DONTWAIT);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		loop_stop(loop);
		return;
	}
	if (c->n < sizeof(c->first)) {
		size_t more = MIN((size_t)n, sizeof(c->first) - c->n);

		memcpy(c->first + c->n, data, more);
		c->n += more;
	}
}

static void speak(const uint8_t *data, size_t size)
{
	struct client c = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	const bool is_tls = size > 0 && data[0] == HANDSHAKE_RECORD;

	if (connect(c.fd, (struct sockaddr *)&all.address, all.address_len) < 0 ||
	    send(c.fd, data, size, MSG_NOSIGNAL) != (ssize_t)size || shutdown(c.fd, SHUT_WR) < 0 ||
	    loop_io_add(all.loop, c.fd, EPOLLIN, on_reply, &c, &c.io) < 0 || loop_run(all.loop) < 0)
		abort();
	if (is_tls)
		assert(c.n == 0 || (c.first[0] >= 20 && c.first[0] <= 23 && c.first[1] == 3));
	else
		assert(memcmp(c.first, "HTTP/1.1", c.n) == 0);
	loop_io_removep(&c.io);
	(void)close(c.fd);
}

static bool is_below(const char *name, const char *domain)
{
	const size_t len = strlen(name), n = strlen(domain);

	return strcmp(name, domain) == 0 ||
	       (len > n + 1 && name[len - n - 1] == '.' && strcmp(name + len - n, domain) == 0);
}

static void ask_for(size_t i, const char *name)
{
	GENERAL_NAMES *names;
	EVP_PKEY *key;
	X509 *cert;

	if (authority_certify(all.authorities[i], name, NOW_S, &cert, &key) < 0)
		abort();
	assert(X509_check_private_key(cert, key) == 1);
	names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	assert(names && sk_GENERAL_NAME_num(names) == 3);
	for (int k = 0; k < sk_GENERAL_NAME_num(names); k++) {
		const GENERAL_NAME *one = sk_GENERAL_NAME_value(names, k);
		const ASN1_IA5STRING *text = one->d.dNSName;

		assert(one->type == GEN_DNS &&
		       strlen((const char *)text->data) == (size_t)text->length);
		assert(is_below((const char *)text->data, domains[i]));
	}
	GENERAL_NAMES_free(names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_free char *name = NULL;

	if (!all.loop) {
		open_authorities();
		open_server();
	}
	if (size < 1 || size > INPUT_MAX || data[0] > 2)
		return 0;
	if (data[0] == 0) {
		speak(data + 1, size - 1);
		return 0;
	}
	name = xstrndup((const char *)data + 1, size - 1); /* OpenSSL takes no NUL in one */
	ask_for(data[0] - 1, name);
	return 0;
}
